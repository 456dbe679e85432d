"""Heartbeats: what each process writes every second, and what the others conclude from it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import Connection, func, literal, select, text, update

from holdfast.bootstrap import heartbeat as module
from holdfast.bootstrap.heartbeat import PADDING_BYTES, ROLES, GateHeartbeat, LedgerHeartbeat, build_readiness
from holdfast.bootstrap.services import open_services
from holdfast.cli.doctor.tables import check_workers
from holdfast.domain.stock.command import Provision
from holdfast.errors import Cause, Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.heartbeats import prune_heartbeats
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.postgres import PostgresDatabase
from holdfast.ledger.tables.heartbeats import heartbeats
from holdfast.ledger.tables.stock import pools
from holdfast.runtime import engine_clock
from holdfast.runtime.agent import Agent, Agents
from holdfast.runtime.breaker import Breaker
from holdfast.runtime.readiness import Check, Readiness
from holdfast.settings import Settings
from holdfast.testing.states import SKU


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


class Process:
    """A server or worker on a database, with these background tasks."""

    def __init__(self, database: Database, clock: Callable[[], float], *roles: str) -> None:
        self.provider = Breaker("payment_stripe", failures_max=1)
        self.agents = Agents()
        self._hang = asyncio.Event()
        for role in roles:
            self.agents.start(Agent(role, self._hang.wait, 60.0))
        self.readiness = build_readiness(database.dialect_name, has_redis=False)
        self.readiness._now = clock
        self.heartbeat = LedgerHeartbeat(database, self.agents, self.readiness, [self.provider], has_redis=False)

    def check(self, name: str) -> tuple[bool, str | None]:
        found = self.readiness.checks()[name]
        return found.ok, found.reason


async def test_a_process_without_background_work_knows_that_another_does_it(database: Database, clock: Clock) -> None:
    server, worker = Process(database, clock), Process(database, clock, *ROLES)
    await server.heartbeat.pass_once()
    assert server.check("selling") == (True, None)
    assert server.check("settling") == (False, "no_worker")
    await worker.heartbeat.pass_once()
    await server.heartbeat.pass_once()
    assert server.check("settling") == server.check("joining") == (True, None)
    await worker.agents.stop()


async def test_a_process_that_joins_others_in_a_quiet_sale_does_not_believe_a_store_that_was_set_ahead(
    migrated_postgres: Database, postgres_database_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last decision, 25 seconds ago, does not tell half a minute ahead from the right time."""
    # For a machine that takes its time between the heartbeat and the reading.
    monkeypatch.setattr(engine_clock, "BUSY_MS", 20_000)
    quiet = await migrated_postgres.read(migrated_postgres.now_ms) - 25_000
    await SqlGate(migrated_postgres).apply(SKU, [Provision(1)])
    await migrated_postgres.write(lambda c: c.execute(update(pools).values(decided_at=quiet)))
    await Process(migrated_postgres, clock).heartbeat.pass_once()
    joining = open_database(postgres_database_url, connections=1)
    assert isinstance(joining, PostgresDatabase)
    joining._now = select(POSTGRES_NOW_MS + 30_000)
    try:
        off = await joining.read(joining.now_ms) - await migrated_postgres.read(migrated_postgres.now_ms)
        assert off < 15_000
        assert joining.clock_step_ms() > 15_000
    finally:
        await joining.close()


async def test_a_worker_that_stops_beating_is_missed_by_our_own_clock(database: Database, clock: Clock) -> None:
    server, worker = Process(database, clock), Process(database, clock, *ROLES)
    await worker.heartbeat.pass_once()
    for second in range(4):
        await server.heartbeat.pass_once()
        assert server.check("settler") == ((True, None) if second < 3 else (False, "no_worker"))
        clock.now += 1.0
    await worker.agents.stop()


async def test_a_server_knows_that_a_worker_gets_no_answer_from_a_payment_provider(
    database: Database, clock: Clock
) -> None:
    server = Process(database, clock)
    asking, idle = Process(database, clock, *ROLES), Process(database, clock, *ROLES)
    asking.provider.failed(0.0)
    for process in (asking, idle, server):
        await process.heartbeat.pass_once()
    assert server.check("payment_stripe") == (False, "no_answer")
    assert server.check("settling") == (True, None)
    [finding] = await database.read(lambda c: check_workers(c, database.now_ms(c)))
    assert finding.found == "payment_stripe does not answer: payments wait"

    asking.provider.succeeded()
    for process in (asking, server):
        await process.heartbeat.pass_once()
    assert server.check("payment_stripe") == (True, None)


async def test_a_row_from_the_future_keeps_no_worker_alive(database: Database, clock: Clock) -> None:
    """The engine's clock was set back."""
    server, worker = Process(database, clock), Process(database, clock, *ROLES)
    await worker.heartbeat.pass_once()
    await database.write(lambda c: c.execute(heartbeats.update().values(at=heartbeats.c.at + 3_600_000)))
    await server.heartbeat.pass_once()
    clock.now += 3.0
    await server.heartbeat.pass_once()
    assert server.check("settler") == (False, "no_worker")
    await worker.agents.stop()


async def test_a_task_whose_pass_does_not_come_back_is_named_here_and_elsewhere(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.agent.monotonic", clock)
    server, worker = Process(database, clock), Process(database, clock, *ROLES)
    await asyncio.sleep(0)
    clock.now += 11.0
    await worker.heartbeat.pass_once()
    await server.heartbeat.pass_once()
    assert worker.check("settling") == server.check("settling") == (False, "hanging")
    await worker.agents.stop()


@contextmanager
def read_only(database: Database) -> Iterator[None]:
    """As a full disk: reads work, and every write is refused."""

    async def refuse(*_: object, **__: object) -> None:
        raise Unavailable("refused", Cause.DISK_FULL)

    write = database.write
    database.write = refuse  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        database.write = write  # type: ignore[method-assign]


async def test_a_refused_heartbeat_says_why_and_the_next_one_is_as_large_as_real_work(
    database: Database, clock: Clock
) -> None:
    server = Process(database, clock, *ROLES)
    await server.heartbeat.pass_once()
    with read_only(database):
        await server.heartbeat.pass_once()
    assert server.check("selling") == server.check("settling") == (False, "disk_full")
    for padded in (PADDING_BYTES, None):
        await server.heartbeat.pass_once()
        assert server.check("selling") == (True, None)
        assert await database.read(_padding) == padded
    await server.agents.stop()


def _padding(connection: Connection) -> int | None:
    found: int | None = connection.execute(select(func.length(heartbeats.c.padding))).scalar_one()
    return found


async def test_a_failed_write_makes_the_next_heartbeat_look_closer(database: Database, clock: Clock) -> None:
    server = Process(database, clock)
    await server.heartbeat.pass_once()
    with pytest.raises(Unavailable):
        await database.write(lambda c: c.execute(text("SELECT * FROM nowhere")))
    await server.heartbeat.pass_once()
    assert await database.read(_padding) == PADDING_BYTES


@pytest.mark.parametrize("rows_changed", [1, 0, None])
async def test_a_store_that_changes_rows_while_a_heartbeat_waits_is_slow_and_not_dead(
    database: Database, monkeypatch: pytest.MonkeyPatch, rows_changed: int | None
) -> None:
    server = Process(database, monotonic, *ROLES)
    await server.heartbeat.pass_once()
    write = database.write

    async def run_out_of_time(*_: object, **__: object) -> None:
        if rows_changed is not None:
            change = heartbeats.update().where(literal(rows_changed) == 1).values(at=0)
            await write(lambda c: c.execute(change))
        raise TimeoutError

    monkeypatch.setattr(module, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(database, "write", run_out_of_time)
    await server.heartbeat.pass_once()
    assert server.check("selling") == ((True, None) if rows_changed else (False, "no_answer"))
    assert server.check("settler") == (True, None)
    await server.agents.stop()


async def test_rows_of_processes_that_ended_are_pruned(database: Database, clock: Clock) -> None:
    await Process(database, clock).heartbeat.pass_once()
    assert await database.write(lambda c: prune_heartbeats(c, 0, limit=10)) == 0
    assert await database.write(lambda c: prune_heartbeats(c, 2**60, limit=10)) == 1


async def test_the_roles_are_those_of_a_server_with_background_work(tmp_path: Path) -> None:
    async with (
        open_services(Settings(data=tmp_path / "a"), background=False) as bare,
        open_services(Settings(data=tmp_path / "b"), background=True) as full,
    ):
        assert sorted(set(full.agents.names) - set(bare.agents.names)) == sorted(ROLES)


async def test_a_gate_sells_while_one_primary_takes_writes() -> None:
    failed = Unavailable("out of memory", Cause.MEMORY_FULL)
    readiness = Readiness({"selling": ["redis"]})
    readiness.watch("redis")
    results: list[BaseException | None] = [None, failed]

    async def beat() -> list[BaseException | None]:
        return results

    gate = GateHeartbeat(beat, readiness)
    await gate.pass_once()
    found = readiness.checks()
    assert found["selling"].ok
    assert found["redis_primaries"].reason == "memory_full"
    results[0] = failed
    await gate.pass_once()
    assert readiness.checks()["selling"].reason == "memory_full"


def test_silence_is_a_failure() -> None:
    clock = Clock()
    readiness = Readiness({"selling": ["store"]}, clock)
    readiness.watch("store")
    assert readiness.checks()["selling"] == Check(False, "starting", 0)
    readiness.succeeded("store")
    clock.now += 2.0
    assert readiness.checks()["selling"] == Check(True, None, 2_000)
    clock.now += 0.1
    assert readiness.checks()["selling"] == Check(False, "no_answer", 2_100)
    readiness.report("lock", "held_too_long")
    assert readiness.checks()["lock"].reason == "held_too_long"
    readiness.report("lock", None)
    clock.now += 3_600
    assert readiness.checks()["lock"].ok


async def test_doctor_misses_a_worker_beside_running_servers(database: Database, clock: Clock) -> None:
    async def found() -> list[str]:
        findings = await database.read(lambda c: check_workers(c, database.now_ms(c)))
        return [finding.found for finding in findings]

    assert await found() == []
    server = Process(database, clock)
    await server.heartbeat.pass_once()
    assert await found() == ["servers are running, but no background work: nothing is settled"]
    worker = Process(database, clock, *ROLES)
    await worker.heartbeat.pass_once()
    assert await found() == []
    await worker.agents.stop()
