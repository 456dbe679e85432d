"""`holdfast pools`, on each engine."""

from pathlib import Path

import pytest
from cli_running import Cli, Here, run_all, run_in_terminal

from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def cli(tmp_path: Path, database_url: str) -> Cli:
    return Cli(tmp_path, {"DATABASE_URL": database_url})


def test_a_pool_is_created_shown_restocked_and_listed(here: Here, database_url: str) -> None:
    made = here(
        "pools", "create", "demo", "--units", "500", "--per-owner-limit", "2", "--json", DATABASE_URL=database_url
    ).json
    assert made == {
        "sku_id": "demo",
        "available": 500,
        "active_reservations": 0,
        "held": 0,
        "sold": 0,
        "total_units": 500,
        "per_owner_limit": 2,
        "state": "available",
        "next_return_at": None,
    }
    more = here("pools", "restock", "demo", "--units", "-100", "--json", DATABASE_URL=database_url).json
    assert more == made | {"available": 400, "total_units": 400}
    assert here("pools", "show", "demo", "--json", DATABASE_URL=database_url).json == more
    assert here("pools", "list", "--json", DATABASE_URL=database_url).json == {"data": [more]}
    table = here("pools", "list", DATABASE_URL=database_url)
    heading, row = table.lines
    assert heading.split() == ["sku", "id", "state", "available", "held", "sold", "total", "limit", "next", "return"]
    assert row.split() == ["demo", "available", "400", "0", "0", "400", "2", "-"]


def test_an_existing_pool_is_never_created_again(here: Here, database_url: str) -> None:
    here("pools", "create", "demo", "--units", "500", DATABASE_URL=database_url)
    again = here("pools", "create", "demo", "--units", "9", "--json", DATABASE_URL=database_url)
    assert (again.code, again.refusal) == (1, "pool demo already exists")
    assert "holdfast pools restock demo" in again.err
    left = here("pools", "create", "demo", "--units", "9", "--if-missing", "--json", DATABASE_URL=database_url)
    assert left.json["total_units"] == 500
    assert left.err == "Pool demo already exists and was not changed.\n"


@pytest.mark.slow
def test_of_concurrent_creations_exactly_one_succeeds(cli: Cli, here: Here, database_url: str) -> None:
    """Existence is checked under the pool's lock: a check before it let the last creation win."""
    here("migrate", DATABASE_URL=database_url)
    ran = run_all([(cli, ["pools", "create", "demo", "--units", str(units), "--json"]) for units in range(1, 7)])
    [made] = [one.json for one in ran if one.code == 0]
    assert here("pools", "show", "demo", "--json", DATABASE_URL=database_url).json == made


def test_only_available_units_can_be_removed(here: Here, database_url: str) -> None:
    here("pools", "create", "demo", "--units", "500", DATABASE_URL=database_url)
    ran = here("pools", "restock", "demo", "--units", "-501", "--json", DATABASE_URL=database_url)
    assert ran.code == 1
    assert "only 500 units are available" in ran.refusal


async def hold_everything(url: str) -> None:
    database = open_database(url)
    await migrate(database)
    sku_id = "sneaker-with-a-rather-long-name-42"
    holds = [Reserve(new_reservation_id(sku_id, f"buyer-{n}"), f"buyer-{n}", n, n) for n in (1_000_000, 234_567)]
    await SqlGate(database).apply(sku_id, [Provision(1_234_567), *holds])
    await database.close()


async def test_the_table_fits_into_80_columns_in_a_terminal(tmp_path: Path) -> None:
    """A long ID wraps; numbers and headings do not."""
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    await hold_everything(url)
    lines = run_in_terminal(Cli(tmp_path, {"DATABASE_URL": url}), "pools", "list")
    assert max(map(len, lines)) <= 80
    assert "next return" in lines[0]
    assert "1,234,567" in lines[1]
    assert "all_held" in lines[1]


def test_reading_creates_no_database(here: Here) -> None:
    assert here("pools", "list", "--json").json == here("keys", "list", "--json").json == {"data": []}
    table = here("pools", "list").out
    assert "holdfast pools create" in table
    assert str(here.directory / "data" / "holdfast.db") in table
    assert here("pools", "show", "demo").code == 1
    assert here("reservations", "show", "rsv_1").code == 1
    assert here("keys", "revoke", "nobody").code == 1
    assert list(here.directory.iterdir()) == []
