"""`holdfast archive`: ended months become files, what is old goes, and `verify` reads the archive."""

import fcntl
from pathlib import Path

import pytest
from cli_running import Here

from databases import new_sqlite_database
from holdfast.domain.stock.command import Expire, Move, Provision, Reserve, Transition
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.testing.states import SKU
from linked import link_all
from set_clock import SetClock

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
async def years_ago(here: Here) -> str:
    """A ledger in which something was sold, and something came to nothing, in a month that is long over."""
    url = new_sqlite_database(here.directory / "old.db")
    database = open_database(url)
    clock = SetClock(database)
    ids = [f"rsv_{clock.now:012x}{number:020x}_{SKU}" for number in range(500)]
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(1000), *[Reserve(one, "ada", 1, 1, 60_000) for one in ids]])
    await gate.apply(SKU, [Move(Transition.CONFIRM, ids[0])])
    clock.advance(61_000)
    await gate.apply(SKU, [Expire(1000)])
    await link_all(database)
    await database.close()
    return url


def test_an_ended_month_is_archived_dropped_and_proven(here: Here, years_ago: str) -> None:
    settings = {"DATABASE_URL": years_ago, "ARCHIVE_DIRECTORY": "archive", "KEEP_DAYS": "7"}
    made = here("archive", "--vacuum", "--json", **settings).json
    assert made["months"] == ["2023-11"]
    assert made["rows"]["reservations"] == 500
    assert made["dropped"] == 499
    assert made["freed_bytes"] > 0
    assert all((here.directory / "archive" / file).is_file() for file in made["files"])
    shown = here("verify", "--json", **settings).json
    assert shown["ok"]
    assert {"archive_files_intact", "archive_in_history"} <= {check["name"] for check in shown["checks"]}
    assert "Nothing to archive" in here("archive", **settings).out
    file = here.directory / "archive" / made["files"][0]
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert here("verify", **settings).code == 1


def test_nothing_is_deleted_with_keep_all_or_without_days(here: Here, years_ago: str) -> None:
    assert here("archive", "--keep-all", "--json", DATABASE_URL=years_ago, KEEP_DAYS="7").json["dropped"] == 0
    assert "HOLDFAST_KEEP_DAYS is not set" in here("archive", DATABASE_URL=years_ago).out


def test_a_second_run_at_the_same_time_is_refused(here: Here, years_ago: str) -> None:
    settings = {"DATABASE_URL": years_ago, "ARCHIVE_DIRECTORY": "archive"}
    directory = here.directory / "archive"
    directory.mkdir()
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = here("archive", **settings)
        assert (ran.code, "another archive run uses" in ran.err) == (2, True)
        assert not (directory / "runs").exists()
    assert here("archive", "--json", **settings).json["months"] == ["2023-11"]


def test_an_archive_that_is_not_there_is_not_verified(here: Here, years_ago: str) -> None:
    ran = here("verify", "--archive", "nowhere", DATABASE_URL=years_ago)
    assert (ran.code, "no archive at nowhere" in ran.err) == (2, True)
    assert not Path("nowhere").exists()
