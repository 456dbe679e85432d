"""Read, check and write in one transaction, with each way PostgreSQL offers to make that safe without `FOR UPDATE`.

Two of them detect a conflict instead of waiting, and retry after a random pause, as their documentation recommends.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import asyncpg

from holdfast.lab.bench.baselines.sql import RESERVE, SKU, Take

# Pauses double with each attempt. Waiting for a lock should notice soon that it is free; after a conflict, a longer
# pause lets the others finish.
LEAST_PAUSE_S, FOR_LOCK_S, AFTER_CONFLICT_S = 0.001, 0.032, 0.256
_READ = "SELECT available FROM baseline.stock WHERE sku_id = $1"
_WRITE = "UPDATE baseline.stock SET available = $2 WHERE sku_id = $1"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_READ_VERSION = "SELECT available, version FROM baseline.stock WHERE sku_id = $1"
_WRITE_VERSION = """
    UPDATE baseline.stock SET available = available - 1, version = version + 1 WHERE sku_id = $1 AND version = $2
"""

_chance = Random(1)


def pauses(most_s: float) -> Iterator[float]:
    """How long to wait before each further attempt, in seconds."""
    longest = LEAST_PAUSE_S
    while True:
        yield _chance.uniform(LEAST_PAUSE_S, longest)
        longest = min(2 * longest, most_s)


async def read_check_write(connection: Any, reservation_id: str, owner_id: str) -> bool:
    """Safe only without concurrent writers. Call it in a transaction."""
    available = await connection.fetchval(_READ, SKU)
    if available < 1:
        return False
    await connection.execute(_WRITE, SKU, available - 1)
    await connection.execute(RESERVE, reservation_id, SKU, owner_id)
    return True


async def advisory_lock(connection: Any, reservation_id: str, owner_id: str) -> bool:
    async with connection.transaction():
        await connection.fetchval(_LOCK, SKU)
        return await read_check_write(connection, reservation_id, owner_id)


def serializable(tries: Counter[str]) -> Take:
    async def take(connection: Any, reservation_id: str, owner_id: str) -> bool:
        for pause_s in pauses(AFTER_CONFLICT_S):
            tries["serializable"] += 1
            try:
                async with connection.transaction(isolation="serializable"):
                    return await read_check_write(connection, reservation_id, owner_id)
            except asyncpg.SerializationError:
                await asyncio.sleep(pause_s)
        raise AssertionError

    return take


def optimistic_version(tries: Counter[str]) -> Take:
    async def take(connection: Any, reservation_id: str, owner_id: str) -> bool:
        for pause_s in pauses(AFTER_CONFLICT_S):
            tries["optimistic_version"] += 1
            available, version = await connection.fetchrow(_READ_VERSION, SKU)
            if available < 1:
                return False
            async with connection.transaction():
                if await connection.execute(_WRITE_VERSION, SKU, version) == "UPDATE 1":
                    await connection.execute(RESERVE, reservation_id, SKU, owner_id)
                    return True
            await asyncio.sleep(pause_s)
        raise AssertionError

    return take
