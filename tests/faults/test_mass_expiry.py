"""200,000 holds of one pool are due at once: other deadlines are kept, and no call takes longer for it.

A million: HOLDFAST_TEST_DUE_HOLDS=1000000 pytest -n 0 -s tests/faults/test_mass_expiry.py -k "portion or three_times"
On a machine with other work only the second compares fairly: the first asks what is usual once, before it begins.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import Connection, text

from conftest import ENGINES
from databases import new_postgres_database, new_sqlite_database
from holdfast.bootstrap.stores import open_engine
from holdfast.domain.stock.command import Command, Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.batcher import Batcher
from holdfast.gate.engine import Engine
from holdfast.gate.expirer import PORTION, Expirer
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.queries import PoolView
from holdfast.runtime.agent import Agents
from holdfast.settings import Settings
from holdfast.testing.states import reserve
from quiet_time import QuietTime
from valkeys import running_valkey

pytestmark = pytest.mark.slow

HOLDS = int(os.environ.get("HOLDFAST_TEST_DUE_HOLDS", "200000"))
MANY, OTHER = "many", "other"
SHORT_HOLDS = 40
# The promise is a second; what this replaced needed ten seconds and more for all of it.
LATEST_MS = 3_000
# A portion takes some milliseconds; all that is due, seconds.
SLOWEST_S = 1.5

_INTO = (
    "INSERT INTO reservations (reservation_id, sku_id, owner_id, quantity, status, created_at, expires_at, counted) "
)
_FILL = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :holds) "
    + _INTO
    + "SELECT 'rsv_' || i, 'many', 'o' || i, 1, 'active', :at, :at, 0 FROM n",
    "postgresql": _INTO + "SELECT 'rsv_' || i, 'many', 'o' || i, 1, 'active', :at, :at, false "
    "FROM generate_series(1, CAST(:holds AS bigint)) i",
}


def fill(connection: Connection, at: int) -> None:
    given = {"holds": HOLDS, "total": HOLDS + 1_000, "at": at}
    columns = "sku_id, total, held, sold, active_reservations, ready, paused, decided_at"
    connection.execute(
        text(f"INSERT INTO pools ({columns}) VALUES ('many', :total, :holds, 0, :holds, true, false, :at)"), given
    )
    connection.execute(text(_FILL[connection.dialect.name]), given)


@pytest.fixture(params=[*ENGINES, "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Database, Engine]]:
    """The engine as a server opens it, with everything of one pool due."""
    async with AsyncExitStack() as opened:
        redis_url = ""
        if request.param == "redis":
            redis_url = opened.enter_context(running_valkey(tmp_path / "valkey")).url
        if request.param == "sqlite":
            url = new_sqlite_database(tmp_path / "holdfast.db")
        else:
            url = new_postgres_database(request.getfixturevalue("postgres_url"))
        database = open_database(url)
        opened.push_async_callback(database.close)
        now = await database.read(database.now_ms)
        await database.write(lambda c: fill(c, now), timeout_s=120)
        settings = Settings(database_url=url, redis_url=redis_url)
        engine = await opened.enter_async_context(open_engine(settings, database))
        # In Redis mode this is what loads the pool.
        await engine.gate.apply(MANY, [Provision(None)])
        await engine.gate.apply(OTHER, [Provision(SHORT_HOLDS)])
        yield database, engine


async def test_other_deadlines_are_kept_and_no_call_takes_longer(stores: tuple[Database, Engine]) -> None:
    database, engine = stores
    agents = Agents()
    for agent in (engine.drainer, Expirer(database, engine.gate)):
        if agent is not None:
            agents.start(agent.agent())
    watched, quiet = monotonic(), QuietTime()
    try:
        slowest_s = 0.0
        for n in range(SHORT_HOLDS):
            await engine.gate.apply(OTHER, [reserve(f"short-{n}", ttl_ms=1_000)])
            calling = QuietTime()
            [verdict] = await engine.gate.apply(MANY, [reserve(f"new-{n}")])
            await engine.look_at([MANY])
            slowest_s = max(slowest_s, calling.seconds)
            assert verdict.outcome is Outcome.RESERVED
            await asyncio.sleep(0.05)
        late_ms = await lateness_ms(database)
        stalled_ms = (monotonic() - watched - quiet.seconds) * 1000
    finally:
        await agents.stop()
    assert max(late_ms) < LATEST_MS + stalled_ms
    assert slowest_s < SLOWEST_S


ROUNDS = 4
ROUND_S = 1.5
BUYERS = 4


async def test_buyers_wait_less_than_three_times_as_long_as_usual(stores: tuple[Database, Engine]) -> None:
    """By the p99 of reserving, with and without the expirer in turns. A stall of the machine spoils a round or two, and
    too much work in one call spoils all of them."""
    database, engine = stores
    await engine.gate.apply(MANY, [Provision(HOLDS + 1_000_000)])
    await engine.gate.apply(OTHER, [Provision(1_000_000)])
    batcher = Batcher(engine.gate)
    drainer = Agents()
    if engine.drainer is not None:
        drainer.start(engine.drainer.agent())
    ratios: dict[str, list[float]] = {MANY: [], OTHER: []}
    try:
        number = -1
        while number < ROUNDS and not all(found and min(found) < 3 for found in ratios.values()):
            usual = await slowest_of(batcher, f"usual-{number}")
            expirer = Agents()
            expirer.start(Expirer(database, engine.gate).agent())
            meanwhile = await slowest_of(batcher, f"meanwhile-{number}")
            await expirer.stop()
            if number >= 0:  # The first round compiles every statement.
                for sku_id, found in ratios.items():
                    found.append(meanwhile[sku_id] / usual[sku_id])
            number += 1
    finally:
        await drainer.stop()
    view = (await engine.look_at([MANY]))[MANY]
    assert isinstance(view, PoolView)
    print(f"p99 of reserving, times the usual: {ratios}; still held: {view.pool.held}")
    assert view.pool.held > 0
    assert all(min(found) < 3 for found in ratios.values())


class Portions:
    """A gate that notes how many holds each call of the expirer returns."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.returned: list[int] = []

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        verdicts = await self._gate.apply(sku_id, commands)
        self.returned += [verdict.units for verdict in verdicts]
        return verdicts


async def test_all_that_is_due_is_returned_portion_by_portion(stores: tuple[Database, Engine]) -> None:
    """The figures are for whoever reads them: an overloaded machine must not fail a test."""
    database, engine = stores
    await engine.gate.apply(MANY, [Provision(HOLDS + 1_000_000)])
    await engine.gate.apply(OTHER, [Provision(1_000_000)])
    batcher, agents, gate = Batcher(engine.gate), Agents(), Portions(engine.gate)
    if engine.drainer is not None:
        agents.start(engine.drainer.agent())
    meanwhile: list[dict[str, float]] = []
    try:
        await slowest_of(batcher, "first")  # Compiles every statement.
        usual = await slowest_of(batcher, "usual")
        began = monotonic()
        agents.start(Expirer(database, gate).agent())
        while sum(gate.returned) < HOLDS:
            meanwhile.append(await slowest_of(batcher, f"meanwhile-{len(meanwhile)}"))
        took_s = monotonic() - began
    finally:
        await agents.stop()
    for sku_id in (MANY, OTHER):
        times = sorted(round(found[sku_id] / usual[sku_id], 1) for found in meanwhile)
        print(f"{sku_id}: p99 of reserving, times the usual: median {times[len(times) // 2]}, worst {times[-1]}")
    print(f"{HOLDS:,} holds returned in {took_s:.1f} s, {HOLDS / took_s:,.0f} per second, {len(gate.returned):,} calls")
    assert sum(gate.returned) == HOLDS
    assert max(gate.returned) <= PORTION


async def slowest_of(batcher: Batcher, prefix: str) -> dict[str, float]:
    """The p99 of some buyers of each pool, in seconds."""
    took: dict[str, list[float]] = {MANY: [], OTHER: []}
    until = monotonic() + ROUND_S

    async def buy(sku_id: str, buyer: int) -> None:
        while monotonic() < until:
            name, started = f"{prefix}-{sku_id}-{buyer}-{len(took[sku_id])}", monotonic()
            verdict = await batcher.submit(sku_id, reserve(name, name, ttl_ms=3_600_000))
            took[sku_id].append(monotonic() - started)
            assert verdict.outcome is Outcome.RESERVED
            await asyncio.sleep(0.01)

    await asyncio.gather(*[buy(sku_id, buyer) for sku_id in took for buyer in range(BUYERS)])
    return {sku_id: sorted(found)[len(found) * 99 // 100] for sku_id, found in took.items()}


async def lateness_ms(database: Database) -> list[int]:
    """How long after its deadline each hold of the other pool was returned."""
    expired = text("SELECT at - expires_at FROM events WHERE sku_id = 'other' AND type = 'reservation.expired'")
    late: list[int] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            while len(late) < SHORT_HOLDS:
                late = await database.read(lambda c: list(c.execute(expired).scalars()))
                await asyncio.sleep(0.1)
    assert len(late) == SHORT_HOLDS
    return late
