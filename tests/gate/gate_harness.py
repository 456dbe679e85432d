"""The harnesses of our own engines for the conformance suite."""

from collections.abc import Callable

from sqlalchemy import Connection, insert

from holdfast.domain.stock.state import State
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.batch_writes import key_rows, reservation_rows
from holdfast.ledger.tables.stock import idempotency, pools, reservations
from holdfast.testing.harness import GateHarness
from holdfast.testing.snapshot import LedgerSnapshot
from ledger_snapshot import read_ledger_snapshot
from redis_setup import RedisSetup
from set_clock import SetClock


def sql_harness(database: Database, open_gate: Callable[[Database], Gate] = SqlGate) -> GateHarness:
    clock = SetClock(database)

    async def read(sku_id: str) -> LedgerSnapshot:
        return await read_ledger_snapshot(database, sku_id)

    async def put(state: State) -> None:
        await database.write(lambda connection: _put(connection, state, clock.now))

    return GateHarness(lambda: open_gate(clock), clock, read, put)


def redis_harness(world: RedisSetup, open_gate: Callable[[], Gate] | None = None) -> GateHarness:
    async def put(state: State) -> None:
        await world.database.write(lambda connection: _put(connection, state, world.clock.now))
        if state.pool is not None:
            await world.rebuilder.rebuild(state.sku_id, Position(), "made")

    return GateHarness(open_gate or world.open_gate, world.clock, world.snapshot, put)


def _put(connection: Connection, state: State, now: int) -> None:
    counted = state.pool is not None and state.pool.rules.count_owners
    for table, rows in (
        (reservations, reservation_rows(list(state.reservations.values()), counted)),
        (idempotency, key_rows(list(state.remembered.values()))),
    ):
        if rows:
            connection.execute(insert(table), [dict(zip(table.c.keys(), row, strict=True)) for row in rows])
    if state.pool is not None:
        p, r = state.pool, state.pool.rules
        limits = (r.per_owner_limit, r.hold_budget, r.required_tier, r.opens_at, r.ends_at, r.paused)
        row = (p.sku_id, p.total, p.held, p.sold, p.active_reservations, p.ready, *limits, now, 0, 0)
        connection.execute(insert(pools).values(row))
