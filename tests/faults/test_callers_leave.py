"""Callers leave at any moment: what they asked for happened whole or not at all, and the line goes on."""

import asyncio
import random

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.gate.batcher import Batcher
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot

CALLERS = 300


async def call(batcher: Batcher, chance: random.Random, number: int) -> str | None:
    """Reserve and give back, unless this caller loses patience first; gives the id of what was granted."""
    name = f"r{number:04}"
    await asyncio.sleep(chance.random() * 0.2)
    try:
        async with asyncio.timeout(chance.random() * 0.02):
            verdict = await batcher.submit(SKU, reserve(name, f"o{number % 7}", key=name))
            await batcher.submit(SKU, Move(chance.choice(list(Transition)), name))
    except TimeoutError:
        return None
    return verdict.reservation.reservation_id if verdict.reservation else None


async def test_the_ledger_is_right_no_matter_who_left_and_when(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(CALLERS // 2)])
    batcher = Batcher(gate, batch_max=16)
    told = await asyncio.gather(*[call(batcher, chance, number) for number in range(CALLERS)])
    await asyncio.wait_for(batcher.drain(), 60)
    books = await read_ledger_snapshot(database, SKU)
    books.check()
    assert {id_ for id_ in told if id_ is not None} <= books.reservations.keys()
    await asyncio.wait_for(batcher.submit(SKU, reserve("last")), 60)
