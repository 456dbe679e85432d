"""`holdfast doctor --production`: what a machine that takes real money needs."""

import os
import time
from pathlib import Path

import pytest
from cli_running import Here, checks

from holdfast.cli.doctor import kernel_clock, production
from holdfast.cli.doctor.certificate import check_certificate, judge
from holdfast.cli.doctor.finding import Level

pytest_plugins = ("cli_fixtures",)

KEYS = {"SERVICE_KEY": "hf_" + "k" * 40, "BUYER_SECRET": "b" * 40}


def test_a_development_machine_is_told_what_it_lacks(here: Here, tmp_path: Path) -> None:
    ran = here(
        "doctor", "--production", "--backups", str(tmp_path), "--json",
        PAYMENT_SANDBOX_URL="http://127.0.0.1:1", STRIPE_API_KEY="sk_test_1", LOG_LEVEL="debug", WEBHOOK_PRIVATE="1",
    )  # fmt: skip
    found = checks(ran)
    assert {"TLS", "proxies", "secrets", "backups", "standby", "fsync", "memory", "open files", "time"} <= set(found)
    assert (found["backups"]["level"], "holdfast-backup.timer" in found["backups"]["fix"]) == ("fail", True)
    assert (found["TLS"]["level"], found["proxies"]["level"], found["standby"]["level"]) == ("warn", "warn", "warn")
    tests = [check["found"] for check in ran.json["checks"] if check["name"] == "test settings"]
    assert [
        name for name in ("play money", "test key", "internal network", "debug") if name not in " ".join(tests)
    ] == []
    assert "sk_test_1" not in ran.out


def test_settings_for_production_pass(here: Here, tmp_path: Path) -> None:
    (tmp_path / "holdfast-backup-20300101T000000Z.tar.gz").touch()
    given = {**KEYS, "SIGNING_KEY": "s" * 40, "TRUSTED_PROXIES": "127.0.0.1"}
    found = checks(here("doctor", "--production", "--backups", str(tmp_path), "--json", **given))
    assert [found[name]["level"] for name in ("backups", "secrets", "proxies")] == ["ok", "ok", "ok"]
    assert "test settings" not in found


def test_generated_keys_fail_where_several_servers_share_a_database(
    here: Here, postgres_url: str, tmp_path: Path
) -> None:
    found = checks(here("doctor", "--production", "--backups", str(tmp_path), "--json", DATABASE_URL=postgres_url))
    assert (found["secrets"]["level"], "on every server" in found["secrets"]["fix"]) == ("fail", True)
    assert (found["standby"]["level"], "synchronous_standby_names" in found["standby"]["fix"]) == ("warn", True)


def test_an_old_backup_and_a_proxy_that_is_everyone_fail(here: Here, tmp_path: Path) -> None:
    old = tmp_path / "holdfast-backup-20200101T000000Z.tar.gz"
    old.touch()
    os.utime(old, (time.time() - 48 * 3600,) * 2)
    found = checks(here("doctor", "--production", "--backups", str(tmp_path), "--json", TRUSTED_PROXIES="0.0.0.0/0"))
    assert (found["backups"]["level"], "48.0 h old" in found["backups"]["found"]) == ("fail", True)
    assert found["proxies"]["level"] == "fail"


@pytest.mark.parametrize(("days", "level"), [(60, Level.OK), (10, Level.WARN), (1, Level.FAIL)])
def test_a_certificate_is_judged_by_the_days_it_has(days: int, level: Level) -> None:
    assert judge("shop.example.com", days).level is level


def test_an_address_without_tls_or_without_a_server_fails() -> None:
    assert check_certificate("http://shop.example.com").level is Level.FAIL
    assert "cannot be reached" in check_certificate("https://127.0.0.1:1").found


@pytest.mark.parametrize(
    ("read", "level"),
    [((0, 500), Level.OK), ((0, 5_000_000), Level.WARN), ((0x40, 500), Level.WARN), (None, Level.WARN)],
)
def test_the_kernel_says_whether_the_clock_is_synchronised(
    read: tuple[int, int] | None, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_clock, "_read", lambda: read)
    assert kernel_clock.check_synchronised().level is level


@pytest.mark.parametrize(("free", "level"), [(2**31, Level.OK), (2**29, Level.WARN), (2**20, Level.FAIL)])
def test_a_limit_of_the_container_counts_as_much_as_the_host(
    free: int, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(production, "_free_of_host", lambda: 2**34)
    monkeypatch.setattr(production, "_free_of_cgroup", lambda: free)
    assert production.check_memory().level is level
