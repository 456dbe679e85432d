"""Waits for stores that are not up yet, so that the order in which things are started does not matter."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from time import monotonic
from typing import TypeVar

import structlog

from holdfast.errors import EngineError

log = structlog.get_logger()

T = TypeVar("T")

RETRY_S = 0.5
# A store that has not refused by now may be frozen.
PATIENCE_S = 3.0


class Startup:
    def __init__(self, within_s: float, stop: asyncio.Event, on_wait: Callable[[], object] = lambda: None) -> None:
        """`on_wait` is called once, if the stores are not there at the first attempt."""
        self._within_s, self._stop, self._on_wait = within_s, stop, on_wait
        self._is_waiting = False

    async def enter(self, stack: AsyncExitStack, open_once: Callable[[], AbstractAsyncContextManager[T]]) -> T | None:
        """What `open_once` opens, as soon as the stores let it; None if told to stop first, whatever became of the
        attempt. Raises the last engine error when the time is up, and at once what waiting does not change."""
        opening = asyncio.create_task(self._enter(stack, open_once))
        stopping = asyncio.create_task(self._stop.wait())
        either = (opening, stopping)
        try:
            await asyncio.wait(either, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done() and not stopping.done():
                self._wait("no answer")
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if not self._stop.is_set():
            return opening.result()
        failed = None if opening.cancelled() else opening.exception()
        if failed is not None:
            log.warning("stopped_while_starting", error=repr(failed))
        return None if opening.cancelled() or failed is not None else opening.result()

    async def _enter(self, stack: AsyncExitStack, open_once: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        until = monotonic() + self._within_s
        while True:
            try:
                return await stack.enter_async_context(open_once())
            except EngineError as exc:
                # An attempt cut off by the stop may end as an engine error.
                if self._stop.is_set() or monotonic() + RETRY_S > until:
                    raise
                self._wait(str(exc))
            await asyncio.sleep(RETRY_S)

    def _wait(self, error: str) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            log.warning("waiting_for_store", error=error, within_s=self._within_s)
            self._on_wait()
