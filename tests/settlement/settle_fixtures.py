"""Fixtures of settlement on each engine. A plugin and not a conftest.py, as in `http_fixtures.py`."""

from collections.abc import AsyncIterator, Iterator

import pytest
from settle_harness import EVERY_ENGINE, Providers, SettleHarness
from settle_sandbox import Sandbox, running_sandbox

from conftest import Swept, _exercised
from holdfast.bootstrap.stores import open_engine
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.settings import Settings
from holdfast.settlement import retry
from holdfast.verify.prove import prove
from valkeys import ValkeyProcess

Place = tuple[str, str, ValkeyProcess | None]


@pytest.fixture(params=EVERY_ENGINE)
def place(request: pytest.FixtureRequest) -> Place:
    engine: str = request.param
    _exercised.add(engine)
    if engine == "sqlite":
        return engine, request.getfixturevalue("_swept_sqlite_url"), None
    valkey = request.getfixturevalue("steady_valkey") if engine == "redis" else None
    return engine, request.getfixturevalue("_swept_postgres_url"), valkey


@pytest.fixture
async def harness(
    request: pytest.FixtureRequest, place: Place, swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SettleHarness]:
    engine, url, valkey = place
    is_by_hand = getattr(request.module, "WRITES_BY_HAND", False)
    # A retry comes when the test says so (`make_due`), however slow the machine is.
    monkeypatch.setattr(retry, "FIRST_RETRY_MS", retry.LONGEST_RETRY_MS)
    database = await swept(url)
    if valkey is None:
        yield SettleHarness(engine, database, SqlGate(database), None)
        await _prove(database, is_by_hand)
        return
    valkey.command("FLUSHALL")
    settings = Settings(database_url=url, redis_url=valkey.url, redis_timeout_ms=20_000)
    async with open_engine(settings, database) as opened:
        assert isinstance(opened.drainer, Drainer)
        built = SettleHarness(engine, database, opened.gate, opened.drainer)
        built.reconciler = opened.reconciler
        yield built
        await _prove(database, is_by_hand)


@pytest.fixture(scope="session")
def _sandbox() -> Iterator[Sandbox]:
    with running_sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(_sandbox: Sandbox) -> Sandbox:
    """The real one, without faults. It also has the payments of earlier tests, under other keys."""
    _sandbox.faults()
    return _sandbox


@pytest.fixture
async def providers(sandbox: Sandbox) -> AsyncIterator[Providers]:
    provider = SandboxProvider(sandbox.url, timeout_s=20.0)
    yield {"sandbox": provider}
    await provider.close()


async def _prove(database: Database, is_by_hand: bool) -> None:
    """Whatever a test did, `verify` finds nothing wrong in the ledger. Only what it wrote by hand is in no event."""
    refuted = [finding.body() for finding in await database.read(prove) if not finding.ok]
    assert [body for body in refuted if not (is_by_hand and body["name"] == "rows_as_recorded")] == []
