"""Blocking calls that a stopping process does not wait for.

`asyncio.to_thread` runs them in a pool whose threads the interpreter joins before it exits: a call that hangs for ten
seconds would keep the process as long. Here each has a daemon thread of its own, which ends with the process.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def on_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = call(*args, **kwargs)
        except BaseException as exc:
            tell(partial(future.set_exception, exc))
        else:
            tell(partial(future.set_result, result))

    def tell(done: Callable[[], None]) -> None:
        """Unless the future is done, or the loop is closed."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else done())

    Thread(target=run, name=getattr(call, "__name__", "call"), daemon=True).start()
    return await future
