"""One of several processes that take from the same pool as fast as they can: `hammer.py URL SKU NAME`.

It says `ready` when it is, starts at a word on its input, and ends when it is told there is nothing left, with the ids
of what it was granted.
"""

import asyncio
import json
import sys

from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database

CALLERS = 32


async def caller(batcher: Batcher, sku_id: str, name: str, granted: list[str]) -> None:
    while True:
        verdict = await batcher.submit(sku_id, Reserve(new_reservation_id(sku_id, name), name, 1, 1))
        if verdict.outcome is not Outcome.RESERVED:
            return
        assert verdict.reservation is not None
        granted.append(verdict.reservation.reservation_id)


async def hammer(url: str, sku_id: str, name: str) -> list[str]:
    database = open_database(url, connections=2)
    batcher = Batcher(SqlGate(database), timeout_s=60.0)
    granted: list[str] = []
    await batcher.submit(sku_id, Reserve(new_reservation_id(sku_id, "nobody"), "nobody", 1_000_000, 1_000_000))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*[caller(batcher, sku_id, name, granted) for _ in range(CALLERS)])
    await database.close()
    return granted


if __name__ == "__main__":
    print(json.dumps(asyncio.run(hammer(*sys.argv[1:]))))
