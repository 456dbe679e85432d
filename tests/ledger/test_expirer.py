"""Units come back by themselves, keys are forgotten in time, and neither stops for one failure."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from holdfast.bootstrap import pruner as pruner_module
from holdfast.bootstrap.pruner import Pruner
from holdfast.domain.stock.command import Command, Expire, Move, Provision, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.errors import Unavailable
from holdfast.gate import expirer as expire
from holdfast.gate.expirer import Expirer
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import note_slowness
from holdfast.ledger.tables.room import gate_slowness
from holdfast.ledger.tables.stock import idempotency
from holdfast.runtime import metrics
from holdfast.testing.states import MINUTE, NOW, SKU, reserve
from ledger_snapshot import read_ledger_snapshot
from set_clock import SetClock

HOUR = 60 * MINUTE
# For a pass to return everything, however busy the machine is.
WAIT_S = 30.0


class WatchedGate:
    """The real gate, which tells what was sent through it, and fails where it is told to."""

    def __init__(self, database: Database) -> None:
        self._gate = SqlGate(database)
        self.sent: list[tuple[str, Command]] = []
        self.returned = asyncio.Event()
        self.failed = asyncio.Event()
        self.broken: dict[str, Exception] = {}
        self.hanging = ""

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self.sent += [(sku_id, command) for command in commands]
        if sku_id == self.hanging:
            await asyncio.Event().wait()
        if sku_id in self.broken:
            self.failed.set()
            raise self.broken[sku_id]
        verdicts = await self._gate.apply(sku_id, commands)
        if any(verdict.units for verdict in verdicts):
            self.returned.set()
        return verdicts


@asynccontextmanager
async def running(agent: Expirer | Pruner) -> AsyncIterator[None]:
    task = asyncio.create_task(agent.agent().run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# --- the expirer


async def test_units_are_back_after_their_deadline_though_nobody_asks(database: Database) -> None:
    gate = WatchedGate(database)
    async with running(Expirer(database, gate)):
        await gate.apply(SKU, [Provision(1), reserve("a", ttl_ms=150)])
        await asyncio.wait_for(gate.returned.wait(), 30)
    snapshot = await read_ledger_snapshot(database, SKU)
    snapshot.check()
    [expired] = [event for event in snapshot.events if event.type == "reservation.expired"]
    assert expired.at >= snapshot.reservations["a"].expires_at


async def test_overdue_units_are_available_to_the_next_request(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(1), reserve("a")])
    clock.advance(MINUTE)
    [verdict] = await gate.apply(SKU, [reserve("b")])
    assert verdict.outcome is Outcome.RESERVED


async def test_a_pass_returns_all_that_is_due_and_nothing_else(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    paying: list[Command] = [reserve("paying"), Move(Transition.SETTLE, "paying")]
    await gate.apply("one", [Provision(9), reserve("a", quantity=3), *paying, reserve("later", ttl_ms=HOUR)])
    await gate.apply("two", [Provision(9), reserve("b", quantity=2)])
    clock.advance(MINUTE)
    expirer = Expirer(clock, gate)
    assert await expirer.pass_once(WAIT_S) == 5
    assert await expirer.pass_once() == 0
    statuses = {id_: r.status for id_, r in (await read_ledger_snapshot(database, "one")).reservations.items()}
    assert statuses == {"a": Status.EXPIRED, "paying": Status.SETTLING, "later": Status.ACTIVE}


async def test_pools_return_a_portion_each_in_turns(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expire, "PORTION", 3)
    monkeypatch.setattr(expire, "TURNS", 1)
    monkeypatch.setattr(expire, "LONGEST_PAUSE_S", 0.0)
    clock = SetClock(database)
    gate = WatchedGate(clock)
    for sku_id, holds in (("many", 8), ("some", 4), ("one", 1)):
        await gate.apply(sku_id, [Provision(9), *[reserve(f"{sku_id}-{n}") for n in range(holds)]])
    clock.advance(MINUTE)
    gate.sent.clear()
    assert await Expirer(clock, gate).pass_once(WAIT_S) == 13
    turns = ["many", "one", "some", "many", "some", "many"]
    assert gate.sent == [(sku_id, Expire(3)) for sku_id in turns]


async def test_a_pool_that_does_not_answer_delays_no_other(database: Database) -> None:
    clock = SetClock(database)
    gate = WatchedGate(clock)
    for sku_id in ("one", "two"):
        await gate.apply(sku_id, [Provision(1), reserve(sku_id)])
    clock.advance(MINUTE)
    gate.hanging = "one"
    async with running(Expirer(clock, gate)):
        await asyncio.wait_for(gate.returned.wait(), 30)
        await gate.apply("three", [Provision(1), reserve("three", ttl_ms=1)])
        clock.advance(1)
        gate.returned.clear()
        await asyncio.wait_for(gate.returned.wait(), 30)


async def test_two_expirers_return_each_unit_once(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(500), *[reserve(f"r{n}") for n in range(400)]])
    clock.advance(MINUTE)
    returned = await asyncio.gather(*[Expirer(clock, gate).pass_once(WAIT_S) for _ in range(2)])
    assert sum(returned) == 400
    (await read_ledger_snapshot(database, SKU)).check()


async def test_a_pass_tells_how_late_it_is(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(1), reserve("a")])
    clock.advance(MINUTE + 2_500)
    expirer = Expirer(clock, gate)
    lags = []
    for _ in range(2):
        await expirer.pass_once(WAIT_S)
        lags.append(metrics.EXPIRER_LAG_SECONDS._value.get())
    assert lags == [2.5, 0]


@pytest.mark.parametrize("failure", [Unavailable("locked"), IntegrityError("", {}, Exception("defect"))])
async def test_a_pool_that_fails_does_not_keep_the_units_of_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(expire, "PASS_INTERVAL_S", 0.01)
    clock = SetClock(database)
    gate = WatchedGate(clock)
    for sku_id in ("one", "two"):
        await gate.apply(sku_id, [Provision(1), reserve(sku_id)])
    clock.advance(MINUTE)
    gate.broken["one"] = failure
    async with running(Expirer(clock, gate)):
        await asyncio.wait_for(gate.returned.wait(), 30)


async def test_the_expirer_goes_on_after_the_engine_was_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expire, "PASS_INTERVAL_S", 0.01)
    clock = SetClock(database)
    gate = WatchedGate(clock)
    await gate.apply(SKU, [Provision(1), reserve("a")])
    clock.advance(MINUTE)
    gate.broken[SKU] = Unavailable("away")
    async with running(Expirer(clock, gate)):
        await asyncio.wait_for(gate.failed.wait(), 30)
        del gate.broken[SKU]
        await asyncio.wait_for(gate.returned.wait(), 30)


# --- the pruner


async def remember(database: Database, *ages_ms: int) -> None:
    rows = [(SKU, "ada", f"k{n}", "f", f"r{n}", 1, NOW - age, NOW) for n, age in enumerate(ages_ms)]
    await database.write(lambda connection: [connection.execute(insert(idempotency).values(row)) for row in rows])


async def keys_left(database: Database) -> set[str]:
    return {key for _, key in (await read_ledger_snapshot(database, SKU)).remembered}


async def test_keys_are_kept_for_a_day_and_then_forgotten(database: Database) -> None:
    await remember(database, 0, 24 * HOUR, 25 * HOUR, 25 * HOUR + 1, 99 * HOUR)
    assert await Pruner(SetClock(database)).pass_once() == 2
    assert await keys_left(database) == {"k0", "k1", "k2"}


async def test_a_key_finds_its_answer_a_day_later_though_the_pruner_came_by(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(1), reserve("a", key="k")])
    clock.advance(24 * HOUR)
    await Pruner(clock).pass_once()
    [verdict] = await gate.apply(SKU, [reserve("b", key="k")])
    assert verdict.outcome is Outcome.REPLAYED


async def test_pruning_goes_in_bounded_batches_oldest_first(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner_module, "PRUNE_LIMIT", 2)
    await remember(database, 30 * HOUR, 40 * HOUR, 50 * HOUR)
    pruner = Pruner(SetClock(database))
    assert await pruner.pass_once() == 2
    assert await keys_left(database) == {"k0"}
    assert [await pruner.pass_once(), await pruner.pass_once()] == [1, 0]


async def test_what_processes_told_of_the_gate_is_forgotten_when_they_are_gone(database: Database) -> None:
    await database.write(lambda c: note_slowness(c, "gone", [(SKU, 5.0), ("other", 6.0)], NOW - 61_000))
    await database.write(lambda c: note_slowness(c, "there", [(SKU, 7.0)], NOW - 59_000))
    await Pruner(SetClock(database)).pass_once()
    left = await database.read(lambda c: c.execute(select(gate_slowness.c.process)).scalars().all())
    assert left == ["there"]
