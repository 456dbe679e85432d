"""`holdfast doctor` on broken embedded databases."""

import sqlite3
import time
from pathlib import Path

import pytest
from cli_running import Here, checks

from holdfast.cli.doctor import filesystem, host
from holdfast.cli.doctor.finding import Level
from holdfast.cli.doctor.sqlite import check_version
from holdfast.cli.doctor.tables import check_skew
from holdfast.ledger.engine.clock import clock_file

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def file(here: Here) -> Path:
    here("pools", "create", "demo", "--units", "5")
    return here.directory / "data" / "holdfast.db"


def change(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


def test_a_file_that_is_not_a_database_is_a_failure(here: Here, file: Path) -> None:
    file.write_text("This is not a database, whatever its name may say. " * 100)
    check = checks(here("doctor", "--json"))["database"]
    assert check["level"] == "fail"
    assert "is not a SQLite database" in check["found"]


def test_a_directory_in_place_of_the_database_is_a_failure(here: Here) -> None:
    (here.directory / "data" / "holdfast.db").mkdir(parents=True)
    assert checks(here("doctor", "--json"))["database"]["level"] == "fail"


def test_damage_inside_the_file_is_a_failure(here: Here, file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * (size - 4096))
    check = checks(here("doctor", "--json"))["database"]
    assert check["level"] == "fail"
    assert "backup" in check["fix"]


def test_a_database_without_tables_needs_migration_and_stays_unchanged(here: Here) -> None:
    file = here.directory / "data" / "holdfast.db"
    file.parent.mkdir()
    change(file, "PRAGMA journal_mode = WAL")
    before = file.read_bytes()
    check = checks(here("doctor", "--json"))["tables"]
    assert (check["level"], check["fix"]) == ("warn", "holdfast migrate")
    assert file.read_bytes() == before
    here("migrate")
    assert checks(here("doctor", "--json"))["tables"]["level"] == "ok"


@pytest.mark.parametrize(("min_reader", "level"), [("0012", "warn"), ("9999", "fail")])
def test_tables_of_a_newer_version_fail_if_they_are_closed_to_this_one(
    here: Here, file: Path, min_reader: str, level: str
) -> None:
    change(file, "UPDATE alembic_version SET version_num = '9999'")
    change(file, f"UPDATE compatibility SET min_reader = '{min_reader}'")
    check = checks(here("doctor", "--json"))["tables"]
    assert check["level"] == level
    assert "newer Holdfast" in check["found"]


def test_tables_of_an_older_version_need_migration(here: Here, file: Path) -> None:
    change(file, "UPDATE alembic_version SET version_num = '0000'")
    assert checks(here("doctor", "--json"))["tables"]["fix"] == "holdfast migrate"


def test_a_copy_without_wal_mode_is_reported_and_not_switched(here: Here, file: Path) -> None:
    change(file, "PRAGMA journal_mode = DELETE")
    before = file.read_bytes()
    check = checks(here("doctor", "--json"))["durability"]
    assert check["level"] == "warn"
    assert "WAL" in check["found"]
    assert file.read_bytes() == before


def test_a_clock_that_was_set_back_is_a_failure(here: Here, file: Path) -> None:
    an_hour_ahead = int(time.time() * 1000) + 3_600_000
    change(file, f"UPDATE pools SET decided_at = {an_hour_ahead}")
    check = checks(here("doctor", "--json"))["clock"]
    assert check["level"] == "fail"
    assert "the clock was set back" in check["found"]


def test_a_host_clock_that_was_set_since_the_database_read_it_is_a_failure(
    here: Here, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks(here("doctor", "--json"))["clock"]["level"] == "ok"
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600_000_000_000)
    check = checks(here("doctor", "--json"))["clock"]
    assert check["level"] == "fail"
    assert "3,600.0 s apart" in check["found"]
    assert str(clock_file(file)) in check["fix"]


def test_a_locked_database_is_read_without_waiting(here: Here, file: Path) -> None:
    """Readers do not wait for writers."""
    busy = sqlite3.connect(file, isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    assert checks(here("doctor", "--json"))["database"]["level"] == "ok"
    busy.close()


def test_a_disk_that_is_nearly_full_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "WANTED_FREE_BYTES", 2**62)
    assert host.check_disk(tmp_path / "not" / "yet").level is Level.WARN
    monkeypatch.setattr(host, "LEAST_FREE_BYTES", 2**62)
    assert host.check_disk(tmp_path).level is Level.FAIL


@pytest.mark.parametrize(("version", "level"), [((3, 37, 2), Level.FAIL), ((3, 38, 0), Level.OK)])
def test_an_old_sqlite_is_a_failure(version: tuple[int, ...], level: Level) -> None:
    assert check_version(version).level is level


@pytest.mark.parametrize(
    ("ms", "level"), [(0, Level.OK), (999, Level.OK), (-1_000, Level.WARN), (30_000, Level.FAIL), (-90_000, Level.FAIL)]
)
def test_clocks_may_differ_a_little(ms: int, level: Level) -> None:
    assert check_skew(ms, "one and another").level is level


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/team\\040share rw shared:9 - nfs4 server:/team rw
31 22 0:41 / /mnt/memory rw - tmpfs tmpfs rw
32 31 8:2 / /mnt/memory/disk rw - xfs /dev/sdb rw
33 22 0:42 / /box rw - ext4 /dev/sdc rw
34 22 0:43 / /box rw - overlay overlay rw
"""


@pytest.mark.parametrize(
    ("directory", "level", "kind"),
    [
        ("/mnt/team share/shop", Level.FAIL, "nfs4"),
        ("/mnt/memory/shop", Level.FAIL, "tmpfs"),
        ("/mnt/memory/disk", Level.OK, "xfs"),
        ("/mnt/memory2", Level.OK, "ext4"),
        ("/box", Level.WARN, "overlay"),
    ],
)
def test_file_systems_are_judged_by_type(
    directory: str, level: Level, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(filesystem, "nearest", lambda path: path)
    found = filesystem.check_filesystem(Path(directory) / "holdfast.db")
    assert found.level is level
    assert kind in found.found


def test_an_unknown_file_system_is_not_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "nowhere")
    assert filesystem.check_filesystem(tmp_path / "holdfast.db").level is Level.OK
