"""Takes turns at a store: a limited number of pools at once, in the order of their requests.

A pool that failed queues separately until it succeeds. So pools that wait for a lock until the timeout, or for a server
that does not answer, do not delay healthy ones.
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
