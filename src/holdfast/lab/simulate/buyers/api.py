"""Requests of buyers to the processes that serve them, without HTTP: a use case runs on the host of the process."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from holdfast.bootstrap.services import Services
from holdfast.checkout.waiting import Wait
from holdfast.errors import EngineError
from holdfast.lab.simulate.channel import Call, Channel, NoAnswer, NotReached
from holdfast.lab.simulate.process import Process

T = TypeVar("T")
Handle = Callable[[Services, Wait], Awaitable[Any]]


class Gone(Exception):
    """The client has disconnected."""


class Defect(Exception):
    """The use case failed in a way that would be a 500."""


class Api(Channel):
    """A channel on which the other side takes its time, and may die meanwhile."""

    async def request(self, process: Process, what: str, handle: Handle, patience_s: float) -> Any:
        """The result. Raises an engine error as the server would report it, or what a client sees without one."""
        gone: asyncio.Future[None] = self.loop.create_future()
        try:
            return await self.call(what, lambda _: partial(self._serve, process, handle, gone), patience_s)
        except NoAnswer:
            # A server notices that its client has left.
            self.loop.call_in_world(self.delay_s(), _leave, gone)
            raise

    def _perform(self, call: Call) -> None:
        serve = call.carry_out(call.fault)
        process: Process = serve.args[0]
        if process.host.is_dead or process.services is None:
            self.respond(call, NotReached(f"{process.name} is not up"), is_failure=True)
        else:
            self.loop.run_on(process.host, serve(call, process.services))

    async def _serve(
        self, process: Process, handle: Handle, gone: asyncio.Future[None], call: Call, services: Services
    ) -> None:
        async def wait(future: asyncio.Future[T]) -> T:
            gone.add_done_callback(lambda _: future.cancel())
            try:
                return await future
            except asyncio.CancelledError:
                if gone.done():
                    raise Gone from None
                raise

        try:
            result = await handle(services, wait)
        except (EngineError, Gone) as exc:
            self.respond(call, exc, is_failure=True)
        except Exception as exc:
            self.trace.note("DEFECT", repr(exc))
            self.respond(call, Defect(repr(exc)), is_failure=True)
        else:
            self.respond(call, result)


def _leave(gone: asyncio.Future[None]) -> None:
    if not gone.done():
        gone.set_result(None)
