"""The embedded engine's clock counts elapsed time, whatever is done to the host's clock."""

import time
from pathlib import Path

import pytest

from holdfast.domain.command import Provision
from holdfast.gate.sql import SqlGate
from holdfast.ledger.clock import SteadyClock
from holdfast.ledger.database import open_database
from holdfast.ledger.migrate import migrate
from holdfast.settlement.expire import Expirer
from worlds import MINUTE, SKU, reserve

HOUR_NS = 3_600_000_000_000
STEPS = pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])


def set_host_clock(monkeypatch: pytest.MonkeyPatch, step_ns: int) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + step_ns)


def test_it_starts_with_the_hosts_time_and_goes_on() -> None:
    clock = SteadyClock()
    first = clock.now_ms()
    assert abs(first - time.time_ns() // 1_000_000) < 1_000
    deadline = time.monotonic() + 5
    while clock.now_ms() == first and time.monotonic() < deadline:
        pass
    assert clock.now_ms() > first


@STEPS
def test_it_does_not_follow_the_hosts_clock_and_says_how_far_that_went(
    monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    clock = SteadyClock()
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
