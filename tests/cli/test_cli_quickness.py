"""A command loads what it needs and nothing else: that is most of the time it takes."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli_running import TIMEOUT_S, Cli

POSTGRES = {"asyncpg", "sqlalchemy.ext.asyncio", "sqlalchemy.orm"}
PROVIDERS = {"aiohttp", "stripe", "holdfast.payments.sandbox.client", "holdfast.payments.stripe.connection"}
SERVER = {"fastapi", "granian", "holdfast.http.app"}
SELDOM = {*POSTGRES, *PROVIDERS, "redis", "alembic", "duckdb", "holdfast.bench.engines"}


def loaded_by(directory: Path, *command: str) -> set[str]:
    """Each module that Python loaded while the command ran."""
    environment = Cli(directory).environment({})
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        cwd=directory, env=environment, capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}


def test_help_does_not_wait_for_the_web_server_or_the_database(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "-m", "holdfast", "--help")
    assert "typer" in loaded
    assert loaded & {*SELDOM, *SERVER, "sqlalchemy", "rich", "pydantic_settings", "structlog"} == set()


@pytest.mark.parametrize(
    "command", [("pools", "list"), ("keys", "list"), ("doctor",), ("worker", "--help")], ids=" ".join
)
def test_a_small_command_on_sqlite_loads_neither_the_web_server_nor_what_other_engines_need(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    assert Cli(tmp_path)("pools", "create", "demo", "--units", "5").code == 0
    loaded = loaded_by(tmp_path, "-m", "holdfast", *command)
    assert "sqlalchemy" in loaded
    assert loaded & (SELDOM | SERVER) == set()


def test_a_server_on_sqlite_loads_nothing_of_other_engines_and_providers(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "-c", "import holdfast.http.server")
    assert loaded >= SERVER
    assert loaded & SELDOM == set()
