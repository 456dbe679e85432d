"""The engines to settle on, each in turn. A plugin and not a conftest.py, as in `http_fixtures.py`."""

from collections.abc import AsyncIterator, Iterator

import pytest
from settle_sandbox import Sandbox, running_sandbox
from settle_world import EVERY_ENGINE, Providers, SettleWorld

from conftest import Swept, _exercised
from holdfast.engines import open_engine
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.settings import Settings
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
async def world(place: Place, swept: Swept) -> AsyncIterator[SettleWorld]:
    engine, url, valkey = place
    database = await swept(url)
    if valkey is None:
        yield SettleWorld(engine, database, SqlGate(database), None)
        await _prove(database)
        return
    valkey.command("FLUSHALL")
    settings = Settings(database_url=url, redis_url=valkey.url, redis_timeout_ms=20_000)
    async with open_engine(settings, database) as opened:
        built = SettleWorld(engine, database, opened.gate, opened.drainer)
        built.reconciler = opened.reconciler
        yield built
        await _prove(database)


@pytest.fixture(scope="session")
def _sandbox() -> Iterator[Sandbox]:
    with running_sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(_sandbox: Sandbox) -> Sandbox:
    """The real one, without faults so far. Its books hold what earlier tests did; keys tell them apart."""
    _sandbox.faults()
    return _sandbox


@pytest.fixture
async def providers(sandbox: Sandbox) -> AsyncIterator[Providers]:
    provider = SandboxProvider(sandbox.url, timeout_s=20.0)
    yield {"sandbox": provider}
    await provider.close()


async def _prove(database: Database) -> None:
    """Whatever a test did, the auditor finds nothing wrong in the ledger it leaves."""
    refuted = [finding.body() for finding in await database.read(prove) if not finding.ok]
    assert refuted == []
