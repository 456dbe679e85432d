"""`holdfast migrate`."""

from pathlib import Path

import pytest
from cli_running import Cli
from sqlalchemy import Connection, text

from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.revision import newest_revision


def test_the_database_is_upgraded_once(tmp_path: Path, empty_database_url: str) -> None:
    cli = Cli(tmp_path, {"DATABASE_URL": empty_database_url})
    assert cli("migrate", "--json").json == {"before": None, "after": newest_revision()}
    assert cli("migrate").out.startswith("Nothing to do: ")


@pytest.mark.slow
async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    cli = Cli(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path / 'holdfast.db'}"})
    cli("migrate")
    await pretend_newer(cli.settings["DATABASE_URL"], min_reader="0012")
    assert cli("migrate", "--json").json == {"before": "9999", "after": "9999"}
    await pretend_newer(cli.settings["DATABASE_URL"], min_reader="9999")
    refused = cli("migrate", "--json")
    assert refused.code == 2
    assert "newer" in refused.refusal


async def pretend_newer(url: str, min_reader: str) -> None:
    def upgrade(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE compatibility SET min_reader = :least"), {"least": min_reader})

    database = open_database(url)
    await database.write(upgrade)
    await database.close()
