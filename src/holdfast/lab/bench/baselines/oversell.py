"""Provokes an oversell: few units, many clients, and one that is paused between its check and its write.

The pause simulates a garbage collection, a busy machine or a slow disk at the worst moment. It ends when all others
have finished or, where they wait for the paused client, after a moment.
"""

import asyncio
import itertools
from typing import Any

from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.lab.bench.baselines.sql import SKU, Baselines, Take, skip_locked

UNITS = 20
BUYERS = 8
PAUSE_S = 0.5
# Waits for the other clients, which continue during the pause; generous, for a busy machine.
DONE_S = 120.0


class PausedWriter:
    """A connection whose first write is paused."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.is_reached, self.may_go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, *arguments: Any) -> Any:
        if not self.is_reached.is_set():
            self.is_reached.set()
            await self.may_go_on.wait()
        return await self._connection.execute(*arguments)


async def oversold(baselines: Baselines, take: Take, *, lock_expires: bool = False) -> int:
    """The number of units sold beyond the stock."""
    await baselines.lay_out(UNITS, UNITS if take is skip_locked else 0)
    paused = PausedWriter(baselines.connections[0])
    first = asyncio.create_task(_buy(take, paused))
    reached = asyncio.create_task(paused.is_reached.wait())
    # With a queue no client writes itself, so the first one is simply answered.
    await asyncio.wait([first, reached], return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    others = asyncio.gather(*(_buy_all(take, baselines.connections[number]) for number in range(1, BUYERS)))
    await asyncio.wait([others], timeout=DONE_S if lock_expires else PAUSE_S)
    paused.may_go_on.set()
    await asyncio.gather(first, others)
    await _buy_all(take, baselines.connections[1])
    return max(0, await baselines.reserved() - UNITS)


_numbers = itertools.count(1)


async def _buy(take: Take, connection: Any) -> bool:
    owner_id = f"owner-{next(_numbers)}"
    return await take(connection, new_reservation_id(SKU, owner_id), owner_id)


async def _buy_all(take: Take, connection: Any) -> None:
    while await _buy(take, connection):
        pass
