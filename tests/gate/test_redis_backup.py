"""A backup in Redis mode says what it may lack: entries that are only in Redis's journals."""

from pathlib import Path

import pytest

from holdfast.bootstrap.backup.archive import extract
from holdfast.bootstrap.backup.backup import Backup, back_up
from holdfast.cli.commands.backup import facts_of, journal_text
from holdfast.domain.stock.command import Provision
from holdfast.lab.load.engines import free_port
from holdfast.settings import Settings
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess


@pytest.fixture
def ledger_url(request: pytest.FixtureRequest) -> str:
    """Of the setup's ledger."""
    url: str = request.getfixturevalue("_swept_postgres_url")
    return url


async def taken(directory: Path, name: str, database_url: str, redis_url: str) -> Backup:
    settings = Settings(data=directory / "data", database_url=database_url, redis_url=redis_url)
    return await back_up(settings, directory / name, verified=False, with_audit=False, progress=lambda _: None)


async def test_a_backup_says_how_many_journal_entries_the_ledger_lacked(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, ledger_url: str, tmp_path: Path
) -> None:
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(10)])
    await redis_setup.drain(SKU)
    await gate.apply(SKU, [reserve("a"), reserve("b")])
    behind = await taken(tmp_path, "behind.tar", ledger_url, valkey_server.url)
    lag = behind.manifest.journal_lag
    assert lag
    assert f"lacked {lag} journal" in journal_text(lag)
    assert extract(behind.file, tmp_path / "unpacked").journal_lag == lag
    assert facts_of(behind.manifest)["journal_lag"] == lag
    await redis_setup.drain(SKU)
    assert (await taken(tmp_path, "drained.tar", ledger_url, valkey_server.url)).manifest.journal_lag == 0


async def test_a_backup_does_not_need_redis(redis_setup: RedisSetup, ledger_url: str, tmp_path: Path) -> None:
    await redis_setup.open_gate().apply(SKU, [Provision(10)])
    made = await taken(tmp_path, "alone.tar", ledger_url, f"redis://127.0.0.1:{free_port()}/0")
    assert made.manifest.journal_lag is None
    assert "did not answer" in journal_text(None)
    assert "had every" in journal_text(0)
