"""Races, in pairs: without the guard the bug happens, with it never.

Without a guard the racers meet between reading and writing, so that the bug does not depend on luck. With the guard
they cannot meet there, so they start together and race for many rounds. Where the guard is PostgreSQL's row lock, only
PostgreSQL can go without it: on SQLite a transaction that writes is the lock.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from sqlalchemy import Connection, null, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.util import await_only

from holdfast.domain.stock.command import Command, Move, Provision, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import DEFAULT_LOCK, LockLimits
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.stock.batch import BatchQueries, LockedPool
from holdfast.ledger.tables.stock import pools
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot

RACERS = 8
TOTAL = 100
MOVED = Outcome.MOVED


class ReadsThenWrites(SqlGate):
    """Decides between two transactions instead of within one."""

    def __init__(self, database: Database, meeting: asyncio.Barrier) -> None:
        super().__init__(database)
        self._meeting = meeting

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        def read(connection: Connection) -> tuple[LockedPool, State, int]:
            locked, now = self.queries.lock(connection, sku_id, commands), self._database.now_ms(connection)
            return locked, self.queries.load(connection, locked, commands, now), now

        locked, state, now = await self._database.read(read)
        await self._meeting.wait()
        decision = decide(state, commands, now)
        await self._database.write(lambda c: self.queries.store(c, locked, decision.changes, now))
        return decision.verdicts


class UnlockedQueries(BatchQueries):
    """Reads the pool's row without locking it, and takes no turn on the name of a pool yet to be made."""

    def __init__(self, meeting: asyncio.Barrier) -> None:
        super().__init__("postgresql")
        self._meeting = meeting

    def lock(
        self, connection: Connection, sku_id: str, commands: Sequence[Command], limits: LockLimits = DEFAULT_LOCK
    ) -> LockedPool:
        row = connection.execute(select(pools, null().label("locked_at")).where(pools.c.sku_id == sku_id)).one_or_none()
        return LockedPool(sku_id, row, commands)

    def load(self, connection: Connection, locked: LockedPool, commands: Sequence[Command], now: int) -> State:
        state = super().load(connection, locked, commands, now)
        await_only(self._meeting.wait())
        return state


def unlocked(database: Database, meeting: asyncio.Barrier) -> SqlGate:
    gate = SqlGate(database)
    gate.queries, gate.without_transaction = UnlockedQueries(meeting), ()
    return gate


@asynccontextmanager
async def opened_by_all(url: str) -> AsyncIterator[list[Database]]:
    """One database, opened as often as there are racers, as that many processes would."""
    async with AsyncExitStack() as stack:
        opened = [open_database(url, connections=2) for _ in range(RACERS)]
        for database in opened:
            stack.push_async_callback(database.close)
        await migrate(opened[0])
        yield opened


@pytest.fixture
async def databases(database_url: str) -> AsyncIterator[list[Database]]:
    async with opened_by_all(database_url) as opened:
        yield opened


@pytest.fixture
async def postgres_databases(postgres_database_url: str) -> AsyncIterator[list[Database]]:
    async with opened_by_all(postgres_database_url) as opened:
        yield opened


async def stampede(gates: Sequence[Gate], rounds: int) -> int:
    """Everyone reserves at the same time, in batches of ten; gives how many units were granted."""

    async def racer(index: int, gate: Gate) -> int:
        granted = 0
        for round_ in range(rounds):
            batch = [reserve(f"{index}-{round_}-{n}", f"racer {index}") for n in range(10)]
            verdicts = await gate.apply(SKU, batch)
            granted += sum(verdict.outcome is Outcome.RESERVED for verdict in verdicts)
        return granted

    return sum(await asyncio.gather(*[racer(index, gate) for index, gate in enumerate(gates)]))


async def units_promised(database: Database) -> int:
    snapshot = await read_ledger_snapshot(database, SKU)
    return sum(r.quantity for r in snapshot.reservations.values() if r.status is Status.ACTIVE)


# --- overselling


async def test_deciding_between_two_transactions_oversells(databases: list[Database]) -> None:
    await SqlGate(databases[0]).apply(SKU, [Provision(TOTAL)])
    meeting = asyncio.Barrier(RACERS)
    granted = await stampede([ReadsThenWrites(database, meeting) for database in databases], rounds=3)
    assert granted == await units_promised(databases[0]) == 3 * 10 * RACERS > TOTAL


async def test_not_locking_the_row_oversells(postgres_databases: list[Database]) -> None:
    await SqlGate(postgres_databases[0]).apply(SKU, [Provision(TOTAL)])
    meeting = asyncio.Barrier(RACERS)
    granted = await stampede([unlocked(database, meeting) for database in postgres_databases], rounds=3)
    assert granted == await units_promised(postgres_databases[0]) > TOTAL


async def test_with_the_lock_exactly_what_is_there_is_granted(databases: list[Database]) -> None:
    await SqlGate(databases[0]).apply(SKU, [Provision(TOTAL * 10)])
    granted = await stampede([SqlGate(database) for database in databases], rounds=25)
    assert granted == await units_promised(databases[0]) == TOTAL * 10
    (await read_ledger_snapshot(databases[0], SKU)).check()


# --- ending twice


async def end_both_ways(gates: Sequence[Gate]) -> Counter[Outcome]:
    """Cancel and confirm one reservation at the same time."""
    moves = [Move(Transition.CANCEL, "a"), Move(Transition.CONFIRM, "a")]
    verdicts = await asyncio.gather(*[gate.apply(SKU, [move]) for gate, move in zip(gates, moves, strict=True)])
    return Counter(verdict.outcome for [verdict] in verdicts)


async def test_without_the_lock_a_reservation_ends_twice(postgres_databases: list[Database]) -> None:
    await SqlGate(postgres_databases[0]).apply(SKU, [Provision(5), reserve("a")])
    meeting = asyncio.Barrier(2)
    gates = [unlocked(database, meeting) for database in postgres_databases[:2]]
    assert await end_both_ways(gates) == {MOVED: 2}


async def test_with_the_lock_a_reservation_ends_once(databases: list[Database]) -> None:
    gates = [SqlGate(database) for database in databases[:2]]
    for _ in range(20):
        await gates[0].apply(SKU, [Provision(5), reserve("a")])
        assert await end_both_ways(gates) == {MOVED: 1, Outcome.ILLEGAL: 1}
        (await read_ledger_snapshot(databases[0], SKU)).check()
        await databases[0].write(forget_everything)


def forget_everything(connection: Connection) -> None:
    for table in pools.metadata.sorted_tables:
        connection.execute(table.delete())


# --- making one pool twice


async def test_without_taking_turns_two_makers_of_one_pool_collide(postgres_databases: list[Database]) -> None:
    meeting = asyncio.Barrier(RACERS)
    gates = [unlocked(database, meeting) for database in postgres_databases]
    made = await asyncio.gather(*[gate.apply(SKU, [Provision(5)]) for gate in gates], return_exceptions=True)
    assert sum(isinstance(answer, IntegrityError) for answer in made) == RACERS - 1


async def test_taking_turns_many_makers_of_one_pool_make_one(databases: list[Database]) -> None:
    gates = [SqlGate(database) for database in databases]
    made = await asyncio.gather(*[gate.apply(SKU, [Provision(5)]) for gate in gates])
    assert [verdict.outcome for [verdict] in made] == [MOVED] * RACERS
    snapshot = await read_ledger_snapshot(databases[0], SKU)
    assert [event.type for event in snapshot.events] == ["pool.provisioned"]


# --- one key, many processes


async def test_one_key_through_many_gates_has_one_effect(databases: list[Database]) -> None:
    gates = [SqlGate(database) for database in databases]
    await gates[0].apply(SKU, [Provision(TOTAL)])
    for round_ in range(10):
        asked = [reserve(f"{round_}-{n}", key=f"k{round_}") for n in range(RACERS)]
        told = await asyncio.gather(*[gate.apply(SKU, [one]) for gate, one in zip(gates, asked, strict=True)])
        assert Counter(v.outcome for [v] in told) == {Outcome.RESERVED: 1, Outcome.REPLAYED: RACERS - 1}
        assert len({v.reservation for [v] in told}) == 1
