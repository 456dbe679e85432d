"""What a batch reads before it is decided: enough, and no more than that."""

import pytest

from holdfast.domain.stock.command import Command, Expire, Move, Provision, Transition
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import BatchQueries
from holdfast.testing.states import MINUTE, NOW, SKU, reserve
from set_clock import SetClock

HOLDS = 200


async def loaded(database: Database, now: int, *commands: Command) -> int:
    queries = BatchQueries(database.dialect_name)
    return await database.write(
        lambda connection: len(
            queries.load(connection, queries.lock(connection, SKU, commands), commands, now).reservations
        )
    )


@pytest.mark.parametrize("command", [reserve("new", quantity=1_000_000), Expire(500)])
async def test_holds_that_are_not_due_are_not_read_however_much_is_asked_for(
    database: Database, command: Command
) -> None:
    holds = [reserve(f"r{n:03}", ttl_ms=MINUTE + n) for n in range(HOLDS)]
    await SqlGate(SetClock(database)).apply(SKU, [Provision(HOLDS), *holds])
    assert await loaded(database, NOW, command) <= 3
    # Three are due, and those are read.
    assert 3 <= await loaded(database, NOW + MINUTE + 2, command) <= 6


async def test_a_crowd_reads_one_hold_that_is_not_due_and_none_where_all_is_sold(database: Database) -> None:
    holds = [reserve(f"r{n}", ttl_ms=MINUTE + n) for n in range(9)]
    await SqlGate(SetClock(database)).apply(SKU, [Provision(9), *holds])
    crowd = [reserve(f"new{n}") for n in range(100)]
    assert await loaded(database, NOW, *crowd) == 1
    await SqlGate(SetClock(database)).apply(SKU, [Move(Transition.CONFIRM, f"r{n}") for n in range(9)])
    assert await loaded(database, NOW + 2 * MINUTE, *crowd) == 0


async def test_a_pool_that_is_only_made_if_missing_reads_no_holds(database: Database) -> None:
    await SqlGate(SetClock(database)).apply(SKU, [Provision(9), *[reserve(f"r{n}") for n in range(9)]])
    assert await loaded(database, NOW + MINUTE, Provision(0, only_if_missing=True)) == 0
