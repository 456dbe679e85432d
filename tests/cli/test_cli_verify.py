"""`holdfast verify`: output and exit status."""

import asyncio
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli_running import Here, Ran

from holdfast.cli.output import show_progress
from holdfast.domain.stock.command import Command, Move, Provision, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.verify.prove import CHECKS

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def ledger(database_url: str) -> str:
    """The URL of a ledger with one sold and one held unit."""

    async def fill() -> None:
        database = open_database(database_url)
        await migrate(database)
        sold, held = new_reservation_id("demo", "ada"), new_reservation_id("demo", "bob")
        buy: list[Command] = [
            Reserve(sold, "ada", 1, 1),
            Move(Transition.CONFIRM, sold),
            Reserve(held, "bob", 1, 1, key="k"),
        ]
        await SqlGate(database).apply("demo", [Provision(3), *buy])
        await database.close()

    asyncio.run(fill())
    return database_url


def failed(ran: Ran) -> list[str]:
    return [check["name"] for check in ran.json["checks"] if not check["ok"]]


def test_progress_is_shown_on_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_progress("1 of 2")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show_progress("1 of 2")
    show_progress("")
    assert capsys.readouterr() == ("", "\r\x1b[K1 of 2\r\x1b[K")


def test_a_healthy_ledger_is_proven(here: Here, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, progress = len(CHECKS), list[str]()
    monkeypatch.setattr("holdfast.cli.commands.proof.verify.show_progress", progress.append)
    ran = here("verify", "--database-url", ledger)
    assert ran.code == 0, ran.err
    assert [line.partition(":")[0] for line in progress] == [f"{n} of {number}" for n in range(1, number + 1)] + [""]
    assert len(ran.lines) == 1
    assert f"PROVEN: {number} of {number} checks hold in " in ran.out
    table = here("verify", "--verbose", "--database-url", ledger)
    assert "✓  reservations_end_once" in table.out
    assert all(check.means in table.out for check in CHECKS)
    assert table.lines[-1] == ran.lines[-1]
    shown = here("verify", "--json", DATABASE_URL=ledger)
    assert shown.code == 0
    assert shown.json["ok"] is True
    assert all(check.keys() >= {"name", "ok", "count", "examples"} for check in shown.json["checks"])


def test_a_tampered_copy_is_refuted_and_left_unchanged(here: Here, tmp_path: Path) -> None:
    assert here("pools", "create", "demo", "--units", "3").code == 0
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(tmp_path / "data" / "holdfast.db")) as original:
        original.execute(f"VACUUM INTO '{copy}'")
    with closing(sqlite3.connect(copy)) as tampered, tampered:
        tampered.execute("UPDATE pools SET total = 4, sold = 1")
    before = copy.read_bytes()
    ran = here("verify", "--database-url", f"sqlite:///{copy}", "--json")
    assert ran.code == 1
    assert failed(ran) == ["pools_count_reservations", "pools_count_events"]
    [check] = [check for check in ran.json["checks"] if check["name"] == "pools_count_events"]
    assert check["count"] == 1
    assert check["examples"][0]["sku_id"] == "demo"
    shown = here("verify", "--database-url", f"sqlite:///{copy}")
    assert shown.code == 1
    assert 'sku_id "demo", total 4' in shown.out
    assert "REFUTED" in shown.lines[-1]
    assert "pools_count_events" in shown.lines[-1]
    assert copy.read_bytes() == before
    assert here("verify").code == 0


def test_a_read_only_copy_is_read(here: Here, tmp_path: Path) -> None:
    assert here("pools", "create", "demo", "--units", "3").code == 0
    closed = tmp_path / "closed"
    closed.mkdir()
    shutil.copy(tmp_path / "data" / "holdfast.db", closed)
    closed.chmod(0o500)
    try:
        assert here("verify", "--database-url", f"sqlite:///{closed / 'holdfast.db'}").code == 0
    finally:
        closed.chmod(0o700)


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("sqlite:///nowhere.db", 2, "there is no database at nowhere.db"),
        ("mysql://x", 2, "mysql:// is not supported"),
        ("postgresql://127.0.0.1:1/x", 1, "PostgreSQL is not available"),
    ],
)
def test_an_unreadable_ledger_is_reported(here: Here, url: str, code: int, said: str) -> None:
    ran = here("verify", "--database-url", url)
    assert ran.code == code
    assert said in ran.err
    assert ran.out == ""


def test_a_file_without_our_tables_is_reported(here: Here, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE something (x)")
    ran = here("verify", "--database-url", "sqlite:///other.db", "--json")
    assert ran.code == 2
    assert "holdfast migrate" in ran.err


def test_json_is_one_object_and_nothing_else(here: Here) -> None:
    assert here("pools", "create", "demo", "--units", "3").code == 0
    ran = here("verify", "--json")
    assert json.loads(ran.out)["ok"]
    assert ran.err == ""


@pytest.mark.parametrize(
    "given", ["postgresql://ada:s3cret@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?password=s3cret"]
)
def test_a_password_among_the_arguments_is_warned_of(here: Here, given: str) -> None:
    ran = here("verify", "--database-url", given)
    assert "process list" in ran.err
    assert "HOLDFAST_DATABASE_URL" in ran.err
    assert "s3cret" not in ran.err + ran.out
    assert "process list" not in here("verify", "--database-url", "postgresql://ada@127.0.0.1:1/x").err
