"""Somebody sets the clock of the database's or Valkey's host: no hold ends early, and none lives longer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import httpx
import pytest
from host_clock import HostClock, host_clock
from msgspec import Struct
from postgres_process import own_postgres
from processes import ask, make_pool, serving

from databases import new_postgres_database
from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status, new_reservation_id
from holdfast.errors import Unavailable
from holdfast.gate.engine import Engine
from holdfast.gate.expirer import Expirer
from holdfast.runtime.agent import Agents
from holdfast.runtime.engine_clock import wall_ms
from holdfast.settings import Settings
from holdfast.testing.states import SKU, reserve
from valkeys import running_valkey

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
STEPS = [HOUR_MS, -HOUR_MS, 25 * HOUR_MS, -25 * HOUR_MS]
LONG_HOLDS = [reserve(new_reservation_id(SKU, "ada"), ttl_ms=600_000) for _ in range(50)]
# A busy machine returns units late. A clock that was followed makes that hours, or no time at all.
LATEST_S = 60.0


class Host(Struct):
    """The host of a store, and the settings of those who use that."""

    clock: HostClock
    settings: dict[str, str]


@pytest.fixture(params=["postgresql", "valkey"])
def host(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> Iterator[Host]:
    with host_clock() as clock, ExitStack() as running:
        settings = {"database_url": new_postgres_database(postgres_url)}
        with clock.preloaded():
            if request.param == "postgresql":
                settings["database_url"] = running.enter_context(own_postgres()).url
            else:
                settings["redis_url"] = running.enter_context(running_valkey(tmp_path / "valkey")).url
        yield Host(clock, settings)


@asynccontextmanager
async def at_work(settings: Settings) -> AsyncIterator[Engine]:
    agents = Agents()
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        for agent in (engine.drainer, Expirer(database, engine.gate)):
            if agent is not None:
                agents.start(agent.agent())
        try:
            yield engine
        finally:
            await agents.stop()


async def test_holds_live_as_long_as_they_were_promised(host: Host) -> None:
    async with at_work(Settings.model_validate(host.settings)) as engine:
        verdicts = await engine.gate.apply(SKU, [Provision(100), *LONG_HOLDS])
        assert [verdict.outcome for verdict in verdicts[1:]] == [Outcome.RESERVED] * len(LONG_HOLDS)
        for step in STEPS:
            host.clock.step(step)
            await short_hold_ends_in_time(engine, f"during {step}")
            host.clock.step(0)
            await short_hold_ends_in_time(engine, f"after {step}")
        held = [await engine.find(command.reservation_id) for command in LONG_HOLDS]
        assert [r.status for r in held if r is not None] == [Status.ACTIVE] * len(LONG_HOLDS)


@pytest.mark.parametrize("step", STEPS[:2])
async def test_a_server_reports_the_step_and_sells_on_even_if_it_is_restarted(
    host: Host, tmp_path: Path, step: int
) -> None:
    async with serving(tmp_path / "data", **host.settings) as holdfast, holdfast.client() as client:
        await make_pool(client, 100)
        assert (await ask(client, "before")).status_code == 200
        for off, reason in ((step, "clock_stepped"), (0, None), (step, "clock_stepped")):
            host.clock.step(off)
            await until_clock(client, reason)
        assert (await ask(client, "during")).status_code == 200
    async with serving(tmp_path / "data", **host.settings) as holdfast, holdfast.client() as client:
        assert (await ask(client, "restarted")).status_code == 200
        pool = (await client.get(f"/v1/inventory/{SKU}/available")).json()
        assert (pool["available"], pool["held"]) == (97, 3)


async def until_clock(client: httpx.AsyncClient, reason: str | None) -> None:
    async with asyncio.timeout(30):
        while (await client.get("/healthz/ready")).json()["checks"]["clock"].get("reason") != reason:  # noqa: ASYNC110 - no event comes of it
            await asyncio.sleep(0.1)


async def short_hold_ends_in_time(engine: Engine, name: str) -> None:
    id_ = new_reservation_id(SKU, "ada")
    started, verdict = await granted(engine, id_)
    assert verdict.reservation is not None
    assert abs(verdict.reservation.created_at - wall_ms()) < LATEST_S * 1000
    # Seen as a buyer would, and as the next buyer would find the pool.
    while await is_held(engine, id_):
        assert monotonic() - started < LATEST_S, f"{name}: it lives longer"
        await asyncio.sleep(0.1)
    assert monotonic() - started > 0.9, f"{name}: it ended early"


async def granted(engine: Engine, reservation_id: str) -> tuple[float, Verdict]:
    """PostgreSQL refuses a statement that waits for a lock while its clock is set ahead: its time seems to be up."""
    async with asyncio.timeout(LATEST_S):
        while True:
            started = monotonic()
            with suppress(Unavailable):
                [verdict] = await engine.gate.apply(SKU, [reserve(reservation_id, ttl_ms=1_000)])
                return started, verdict


async def is_held(engine: Engine, reservation_id: str) -> bool:
    reservation = await engine.find(reservation_id)
    [view] = (await engine.look_at([SKU])).values()
    assert not isinstance(view, Exception)
    is_active = reservation is not None and reservation.status is Status.ACTIVE
    return is_active or view.pool.held > len(LONG_HOLDS)
