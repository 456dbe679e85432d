"""The embedded engine's clock counts elapsed time, whatever is done to the host's clock."""

import time
from pathlib import Path

import pytest

from holdfast.domain.stock.command import Provision, Restock
from holdfast.domain.stock.reservation import Status
from holdfast.gate.expirer import Expirer
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.clock import clock_file, own_clock, shared_clock
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import MINUTE, SKU, reserve
from ledger_snapshot import read_ledger_snapshot

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
HOUR_NS = 3_600_000_000_000
STEPS = pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])


def set_host_clock(monkeypatch: pytest.MonkeyPatch, step_ns: int) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + step_ns)


def test_it_starts_with_the_hosts_time_and_goes_on() -> None:
    clock = own_clock()
    first = clock.now_ms()
    assert abs(first - time.time_ns() // 1_000_000) < 1_000
    deadline = time.monotonic() + 60
    while clock.now_ms() == first and time.monotonic() < deadline:
        pass
    assert clock.now_ms() > first


@STEPS
def test_it_does_not_follow_the_hosts_clock_and_says_how_far_that_went(
    monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    clock = own_clock()
    before = clock.now_ms()
    assert abs(clock.drift_ms()) < 1_000
    set_host_clock(monkeypatch, step_ns)
    assert 0 <= clock.now_ms() - before < 1_000
    assert abs(clock.drift_ms() - step_ns // 1_000_000) < 1_000


@STEPS
async def test_setting_the_hosts_clock_neither_ends_nor_prolongs_a_hold(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'holdfast.db'}")
    try:
        await migrate(database)
        gate = SqlGate(database)
        [_, first] = await gate.apply(SKU, [Provision(2), reserve("a", ttl_ms=MINUTE)])
        set_host_clock(monkeypatch, step_ns)
        assert await Expirer(database, gate).pass_once() == 0
        [second] = await gate.apply(SKU, [reserve("b", ttl_ms=MINUTE)])
    finally:
        await database.close()
    assert first.reservation is not None
    assert second.reservation is not None
    assert 0 <= second.reservation.expires_at - first.reservation.expires_at < 5_000


async def now_of(database: Database) -> int:
    return await database.read(database.now_ms)


@STEPS
async def test_a_process_started_after_the_hosts_clock_was_set_shares_the_time_of_those_before(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, tmp_path: Path
) -> None:
    """A command beside the server, or its next start: the holds of the pool neither end nor last longer for it."""
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    server = open_database(url)
    await migrate(server)
    await SqlGate(server).apply(SKU, [Provision(2), reserve("a", ttl_ms=MINUTE)])
    set_host_clock(monkeypatch, step_ns)
    command = open_database(url)
    try:
        assert abs(await now_of(command) - await now_of(server)) < 1_000
        await SqlGate(command).apply(SKU, [Restock(1)])
        assert await Expirer(server, SqlGate(server)).pass_once() == 0
        [second] = await SqlGate(server).apply(SKU, [reserve("b", ttl_ms=MINUTE)])
    finally:
        await server.close()
        await command.close()
    assert second.reservation is not None
    snapshot = await read_again(url)
    assert abs(snapshot.reservations["b"].created_at - snapshot.reservations["a"].created_at) < 5_000
    assert snapshot.reservations["a"].status is Status.ACTIVE


async def read_again(url: str) -> LedgerSnapshot:
    database = open_database(url)
    try:
        return await read_ledger_snapshot(database, SKU)
    finally:
        await database.close()


@STEPS
async def test_a_new_boot_begins_with_the_hosts_clock_but_not_before_what_was_decided(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, tmp_path: Path
) -> None:
    file = tmp_path / "holdfast.db"
    before = open_database(f"sqlite:///{file}")
    await migrate(before)
    await SqlGate(before).apply(SKU, [Provision(1)])
    decided_at = await now_of(before)
    await before.close()
    clock_file(file).write_text("another-boot 5\n")
    set_host_clock(monkeypatch, step_ns)
    after = open_database(f"sqlite:///{file}")
    try:
        expected = max(time.time_ns() // 1_000_000, decided_at)
        assert abs(await now_of(after) - expected) < 1_000
        assert await now_of(after) >= decided_at - 1_000
    finally:
        await after.close()


@pytest.mark.parametrize("content", ["", "nonsense", "{boot_id} soon", "\xff\xfe"])
async def test_a_clock_file_that_makes_no_sense_is_written_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "holdfast.db"
    boot_id = BOOT_ID
    clock_file(file).write_text(content.format(boot_id=boot_id))
    database = open_database(f"sqlite:///{file}")
    assert abs(await now_of(database) - time.time_ns() // 1_000_000) < 1_000
    await database.close()
    assert clock_file(file).read_text().startswith(f"{boot_id} ")


def test_a_database_in_a_place_that_cannot_be_written_has_a_clock(tmp_path: Path) -> None:
    assert abs(shared_clock(tmp_path / "nowhere" / "holdfast.db").drift_ms()) < 1_000
