"""`holdfast doctor` on PostgreSQL, as it should be and as it should not."""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest
from cli_running import Cli, Here, checks
from sqlalchemy import make_url

from holdfast.cli.checks.postgres import _how_to_set

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def url(postgres_database_url: str, here: Here) -> str:
    """A migrated database of our own."""
    assert here("migrate", DATABASE_URL=postgres_database_url).code == 0
    return postgres_database_url


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A role that may connect and nothing else."""
    name = f"role_{uuid4().hex[:8]}"
    execute(postgres_url, f"CREATE ROLE {name} LOGIN")
    yield name
    execute(postgres_url, f"DROP ROLE {name}")


def execute(url: str, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def name_of(url: str) -> str:
    return f'"{make_url(url).database}"'


def with_(url: str, **parts: str) -> str:
    return make_url(url).set(**parts).render_as_string(hide_password=False)  # type: ignore[arg-type]


def test_all_is_well_on_a_sound_server(url: str, here: Here) -> None:
    found = checks(Cli(here.directory)("doctor", "--json", DATABASE_URL=url))
    assert {name for name, check in found.items() if check["level"] == "fail"} == set()
    assert {"database", "engine", "tables", "durability", "clock", "connections"} <= found.keys()
    assert found["engine"]["found"].startswith("PostgreSQL ")
    assert "room for" in found["connections"]["found"]


def test_an_empty_database_is_told_to_migrate_and_stays_empty(postgres_database_url: str, here: Here) -> None:
    for _ in range(2):
        check = checks(here("doctor", "--json", DATABASE_URL=postgres_database_url))["tables"]
        assert (check["level"], check["mend"]) == ("warn", "holdfast migrate")


def test_commits_that_do_not_wait_for_the_disk_are_a_failure_and_the_mend_mends_it(url: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["durability"]
    assert check["level"] == "fail"
    assert "synchronous_commit is off" in check["found"]
    assert check["mend"].startswith("psql postgresql://") or check["mend"].startswith("psql 'postgresql://")
    execute(url, check["mend"].split("-c ")[1].strip("'"))
    assert checks(here("doctor", "--json", DATABASE_URL=url))["durability"]["level"] == "ok"


def test_a_role_that_does_not_wait_for_the_disk_is_told_to_reset_the_role(url: str, role: str, here: Here) -> None:
    execute(
        url, f"ALTER ROLE {role} SET synchronous_commit = off", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"
    )
    check = checks(here("doctor", "--json", DATABASE_URL=with_(url, username=role)))["durability"]
    execute(url, f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}")
    assert f'ALTER ROLE "{role}" RESET synchronous_commit' in check["mend"]


@pytest.mark.parametrize(
    ("source", "mend"),
    [
        ("configuration file", "ALTER SYSTEM SET fsync = on"),
        ("database user", 'ALTER ROLE "clerk" IN DATABASE "shop" RESET fsync'),
        ("command line", "without fsync=off"),
        ("client", "HOLDFAST_DATABASE_URL"),
    ],
)
def test_a_setting_is_mended_where_it_was_made(source: str, mend: str) -> None:
    assert mend in _how_to_set("fsync", source, "postgresql://clerk:pa55word@h/shop", "clerk")
    assert "pa55word" not in _how_to_set("fsync", source, "postgresql://clerk:pa55word@h/shop", "clerk")


def test_a_database_that_takes_no_writes_is_a_failure(url: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["rights"]
    assert check["level"] == "fail"
    assert "RESET default_transaction_read_only" in check["mend"]


def test_a_role_that_may_not_make_tables_is_a_failure(postgres_database_url: str, role: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(postgres_database_url, username=role)))["rights"]
    assert check["level"] == "fail"
    assert f'GRANT CREATE ON SCHEMA "public" TO "{role}"' in check["mend"]


def test_a_role_that_may_not_read_the_tables_is_a_failure(url: str, role: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(url, username=role)))["database"]
    assert check["level"] == "fail"
    assert "GRANT ALL ON ALL TABLES" in check["mend"]


@pytest.mark.parametrize(("limit", "level"), [(7, "fail"), (12, "warn"), (50, "ok")])
def test_too_few_connections_are_found(url: str, limit: int, level: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} CONNECTION LIMIT {limit}")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["connections"]
    assert check["level"] == level


def test_a_pool_from_the_future_is_a_failure(url: str, here: Here) -> None:
    here("pools", "create", "demo", "--units", "5", DATABASE_URL=url)
    execute(url, f"UPDATE pools SET decided_at = {int(time.time() * 1000) + 3_600_000}")
    assert "set back" in checks(here("doctor", "--json", DATABASE_URL=url))["clock"]["found"]


def test_a_server_that_is_down_is_a_failure_beside_other_findings(here: Here) -> None:
    found = checks(here("doctor", "--json", DATABASE_URL="postgresql://u:pa55word@127.0.0.1:1/shop"))
    assert found["database"]["level"] == "fail"
    assert "pg_isready -d postgresql://u@127.0.0.1:1/shop" in found["database"]["mend"]
    assert {"settings", "data", "open files", "python"} <= found.keys()


def test_a_database_that_does_not_exist_is_told_to_be_made(postgres_url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(postgres_url, database="nowhere")))["database"]
    assert 'CREATE DATABASE "nowhere"' in check["mend"]


def test_a_role_that_does_not_exist_is_told_to_be_corrected(postgres_url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(postgres_url, username="nobody")))["database"]
    assert "correct the user and password" in check["mend"]


def test_an_option_the_driver_does_not_know_is_a_finding(url: str, here: Here) -> None:
    separator = "&" if "?" in url else "?"
    check = checks(here("doctor", "--json", DATABASE_URL=f"{url}{separator}no_such_option=1"))["database"]
    assert check["level"] == "fail"
    assert "no_such_option" in check["found"]
