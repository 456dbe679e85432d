"""`holdfast doctor` on sound and broken PostgreSQL servers."""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest
from cli_running import Cli, Here, checks
from sqlalchemy import make_url

from databases import postgres_server
from holdfast.cli.doctor.postgres import _how_to_set

pytest_plugins = ("cli_fixtures",)


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """A server that syncs to disk, unlike that of other tests."""
    with postgres_server(fsync=True) as url:
        yield url


@pytest.fixture
def url(postgres_database_url: str) -> str:
    return postgres_database_url


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A role that may only connect."""
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


def test_a_sound_server_passes(url: str, here: Here) -> None:
    found = checks(Cli(here.directory)("doctor", "--json", DATABASE_URL=url))
    assert {name for name, check in found.items() if check["level"] == "fail"} == set()
    assert {"database", "engine", "tables", "durability", "clock", "connections"} <= found.keys()
    assert found["engine"]["found"].startswith("PostgreSQL ")
    assert "room for" in found["connections"]["found"]


def test_an_empty_database_needs_migration_and_stays_empty(empty_postgres_database_url: str, here: Here) -> None:
    for _ in range(2):
        check = checks(here("doctor", "--json", DATABASE_URL=empty_postgres_database_url))["tables"]
        assert (check["level"], check["fix"]) == ("warn", "holdfast migrate")


def test_sessions_without_limits_are_named(url: str, here: Here) -> None:
    assert checks(here("doctor", "--json", DATABASE_URL=url))["limits"]["level"] == "ok"
    unlimited = make_url(url).update_query_dict({"options": "-c lock_timeout=0"}).render_as_string(hide_password=False)
    check = checks(here("doctor", "--json", DATABASE_URL=unlimited))["limits"]
    assert check["level"] == "warn"
    assert check["found"].startswith("lock_timeout is 0")
    assert "HOLDFAST_DATABASE_URL" in check["fix"]


def test_asynchronous_commits_are_a_failure_and_the_fix_works(url: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["durability"]
    assert check["level"] == "fail"
    assert "synchronous_commit is off" in check["found"]
    assert check["fix"].startswith("psql postgresql://") or check["fix"].startswith("psql 'postgresql://")
    execute(url, check["fix"].split("-c ")[1].strip("'"))
    assert checks(here("doctor", "--json", DATABASE_URL=url))["durability"]["level"] == "ok"


def test_asynchronous_commits_of_a_role_are_fixed_on_the_role(url: str, role: str, here: Here) -> None:
    execute(
        url, f"ALTER ROLE {role} SET synchronous_commit = off", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"
    )
    check = checks(here("doctor", "--json", DATABASE_URL=with_(url, username=role)))["durability"]
    execute(url, f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}")
    assert f'ALTER ROLE "{role}" RESET synchronous_commit' in check["fix"]


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("configuration file", "ALTER SYSTEM SET fsync = on"),
        ("database user", 'ALTER ROLE "clerk" IN DATABASE "shop" RESET fsync'),
        ("command line", "without fsync=off"),
        ("client", "HOLDFAST_DATABASE_URL"),
    ],
)
def test_a_setting_is_reset_where_it_was_set(source: str, fix: str) -> None:
    assert fix in _how_to_set("fsync", source, "postgresql://clerk:pa55word@h/shop", "clerk")
    assert "pa55word" not in _how_to_set("fsync", source, "postgresql://clerk:pa55word@h/shop", "clerk")


def test_a_read_only_database_is_a_failure(url: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["rights"]
    assert check["level"] == "fail"
    assert "RESET default_transaction_read_only" in check["fix"]


def test_a_role_that_may_not_create_tables_is_a_failure(
    empty_postgres_database_url: str, role: str, here: Here
) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(empty_postgres_database_url, username=role)))["rights"]
    assert check["level"] == "fail"
    assert f'GRANT CREATE ON SCHEMA "public" TO "{role}"' in check["fix"]


def test_a_role_that_may_not_read_the_tables_is_a_failure(url: str, role: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(url, username=role)))["database"]
    assert check["level"] == "fail"
    assert "GRANT ALL ON ALL TABLES" in check["fix"]


@pytest.mark.parametrize(("limit", "level"), [(7, "fail"), (12, "warn"), (50, "ok")])
def test_too_few_connections_are_found(url: str, limit: int, level: str, here: Here) -> None:
    execute(url, f"ALTER DATABASE {name_of(url)} CONNECTION LIMIT {limit}")
    check = checks(here("doctor", "--json", DATABASE_URL=url))["connections"]
    assert check["level"] == level


def test_a_pool_from_the_future_is_a_failure(url: str, here: Here) -> None:
    here("pools", "create", "demo", "--units", "5", DATABASE_URL=url)
    execute(url, f"UPDATE pools SET decided_at = {int(time.time() * 1000) + 3_600_000}")
    assert "set back" in checks(here("doctor", "--json", DATABASE_URL=url))["clock"]["found"]


def test_a_server_that_is_down_does_not_hide_other_findings(here: Here) -> None:
    found = checks(here("doctor", "--json", DATABASE_URL="postgresql://u:pa55word@127.0.0.1:1/shop"))
    assert found["database"]["level"] == "fail"
    assert "pg_isready -d postgresql://u@127.0.0.1:1/shop" in found["database"]["fix"]
    assert {"settings", "data", "open files", "python"} <= found.keys()


def test_a_missing_database_comes_with_the_command_that_creates_it(postgres_url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(postgres_url, database="nowhere")))["database"]
    assert 'CREATE DATABASE "nowhere"' in check["fix"]


def test_a_missing_role_is_a_failure_of_the_url(postgres_url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=with_(postgres_url, username="nobody")))["database"]
    assert "correct the user and password" in check["fix"]


def test_an_unknown_driver_option_is_a_finding(url: str, here: Here) -> None:
    separator = "&" if "?" in url else "?"
    check = checks(here("doctor", "--json", DATABASE_URL=f"{url}{separator}no_such_option=1"))["database"]
    assert check["level"] == "fail"
    assert "no_such_option" in check["found"]
