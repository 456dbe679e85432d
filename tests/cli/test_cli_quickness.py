"""A command imports only what it needs, because imports dominate its run time."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli_running import TIMEOUT_S, Cli

from databases import new_sqlite_database

POSTGRES = {"asyncpg", "sqlalchemy.ext.asyncio", "sqlalchemy.orm"}
PROVIDERS = {"aiohttp", "stripe", "holdfast.payments.sandbox.client", "holdfast.payments.stripe.connection"}
SERVER = {"granian", "holdfast.http.server.app"}
# Of extras that most installations do not have.
EXTRAS = {"confluent_kafka", "pyarrow", "opentelemetry"}
SELDOM = {*POSTGRES, *PROVIDERS, *EXTRAS, "redis", "alembic", "duckdb", "holdfast.lab.load.engines"}


def loaded_by(directory: Path, *command: str) -> set[str]:
    """The modules imported by the command."""
    environment = Cli(directory).environment({})
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    # The doctor's findings are status 1.
    assert ran.returncode in {0, 1}, ran.stderr[-2000:]
    assert "Traceback" not in ran.stderr, ran.stderr[-2000:]
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}


def test_help_loads_neither_web_server_nor_database(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "-m", "holdfast", "--help")
    assert "typer" in loaded
    assert loaded & {*SELDOM, *SERVER, "sqlalchemy", "rich", "pydantic_settings", "structlog"} == set()


@pytest.mark.parametrize(
    "command", [("pools", "list"), ("keys", "list"), ("doctor",), ("worker", "--help")], ids=" ".join
)
def test_a_small_command_on_sqlite_loads_no_web_server_and_no_other_engine(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    new_sqlite_database(tmp_path / "data" / "holdfast.db")
    loaded = loaded_by(tmp_path, "-m", "holdfast", *command)
    assert "sqlalchemy" in loaded
    assert loaded & (SELDOM | SERVER) == set()


def test_a_server_on_sqlite_loads_no_other_engine_or_provider(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "-c", "import holdfast.http.server.serving")
    assert loaded >= SERVER
    assert loaded & SELDOM == set()
