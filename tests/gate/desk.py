"""An engine on the test bench: its gate, its clock, its books."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from sqlalchemy import Connection, insert

from books import Books, read_books
from holdfast.domain.command import Command, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import Reservation
from holdfast.domain.state import State
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.batch import Position
from holdfast.ledger.batch_writes import key_rows, reservation_rows
from holdfast.ledger.database import Database
from holdfast.ledger.tables import idempotency, pools, reservations
from redis_world import RedisWorld
from set_clock import SetClock
from worlds import SKU


class Clock(Protocol):
    now: int

    def advance(self, ms: int) -> None: ...


class Desk:
    """What the conformance suite needs of an engine. Every batch applied here leaves books that are right."""

    def __init__(
        self,
        open_gate: Callable[[], Gate],
        clock: Clock,
        read: Callable[[str], Awaitable[Books]],
        put: Callable[[State], Awaitable[None]],
    ) -> None:
        self.gate = open_gate()
        self.clock = clock
        self.put_world = put
        self._open_gate = open_gate
        self._read = read

    def another(self) -> "Desk":
        """The same engine through a gate that was opened anew, as another process would."""
        return Desk(self._open_gate, self.clock, self._read, self.put_world)

    async def books(self, sku_id: str = SKU) -> Books:
        return await self._read(sku_id)

    async def apply(self, *commands: Command, sku_id: str = SKU) -> list[Verdict]:
        verdicts = await self.gate.apply(sku_id, commands)
        (await self.books(sku_id)).check()
        return verdicts

    async def outcomes(self, *commands: Command, sku_id: str = SKU) -> list[Outcome]:
        return [verdict.outcome for verdict in await self.apply(*commands, sku_id=sku_id)]

    async def granted(self, command: Command, sku_id: str = SKU) -> Reservation:
        [verdict] = await self.apply(command, sku_id=sku_id)
        assert verdict.reservation is not None, verdict
        return verdict.reservation

    async def reservation(self, reservation_id: str) -> Reservation:
        return (await self.books()).reservations[reservation_id]

    async def history(self, reservation_id: str) -> list[str]:
        return [e.type for e in (await self.books()).events if e.reservation_id == reservation_id]


def sql_desk(database: Database, open_gate: Callable[[Database], Gate] = SqlGate) -> Desk:
    clock = SetClock(database)

    async def read(sku_id: str) -> Books:
        return await read_books(database, sku_id)

    async def put(state: State) -> None:
        await database.write(lambda connection: _put(connection, state, clock.now))

    return Desk(lambda: open_gate(clock), clock, read, put)


def redis_desk(world: RedisWorld, open_gate: Callable[[], Gate] | None = None) -> Desk:
    async def put(state: State) -> None:
        await world.database.write(lambda connection: _put(connection, state, world.clock.now))
        if state.pool is not None:
            await world.rebuilder.rebuild(state.sku_id, Position(), "made")

    return Desk(open_gate or world.open_gate, world.clock, world.books, put)


def _put(connection: Connection, state: State, now: int) -> None:
    counted = state.pool is not None and state.pool.rules.count_owners
    for table, rows in (
        (reservations, reservation_rows(list(state.reservations.values()), counted)),
        (idempotency, key_rows(list(state.remembered.values()))),
    ):
        for row in rows:
            connection.execute(insert(table).values(row))
    if state.pool is not None:
        p, r = state.pool, state.pool.rules
        limits = (r.per_owner_limit, r.hold_budget, r.required_tier, r.opens_at, r.ends_at, r.paused)
        row = (p.sku_id, p.total, p.held, p.sold, p.active_reservations, p.ready, *limits, now, 0, 0)
        connection.execute(insert(pools).values(row))
