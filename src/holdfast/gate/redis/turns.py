"""Who may use a store now: so many pools at once, in the order in which they asked.

A pool that failed asks on a lane of its own until it succeeds. There only others that failed are before it: those that
wait for a lock until the store gives up, or for a server that does not answer, keep none of the rest waiting.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FAILED_AT_ONCE = 1


class Turns:
    def __init__(self, at_once: int) -> None:
        self._usual = asyncio.Semaphore(at_once)
        self._after_failure = asyncio.Semaphore(FAILED_AT_ONCE)
        self._failed: set[str] = set()

    def has_to_wait(self, sku_id: str) -> bool:
        return self._lane(sku_id).locked()

    def _lane(self, sku_id: str) -> asyncio.Semaphore:
        return self._after_failure if sku_id in self._failed else self._usual

    @asynccontextmanager
    async def turn(self, sku_id: str) -> AsyncIterator[None]:
        async with self._lane(sku_id):
            try:
                yield
            except Exception:
                self._failed.add(sku_id)
                raise
            self._failed.discard(sku_id)
