"""Commands on a ledger that went back: `doctor` says so, and nothing is written until `recover` has decided."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from cli_running import Here, Ran, checks

from holdfast.bootstrap.marks import place_of
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.mark.mark import KeptMark, Mark, begin_incarnation, read_mark
from holdfast.ledger.mark.mark_file import MarkFile
from holdfast.settings import Settings

pytest_plugins = ("cli_fixtures",)

Command = Callable[..., Ran]
WRITING = [
    ("pools", "create", "other", "--units", "5"),
    ("keys", "create", "--name", "till", "--scope", "inventory"),
    ("webhooks", "add", "https://example.com/hook", "--event", "order.confirmed"),
]


@pytest.fixture
def went_back(here: Here, database_url: str) -> Command:
    """A server has seen more events than there are."""
    command = partial(here, DATABASE_URL=database_url)
    command("pools", "create", "demo", "--units", "5")

    async def seen() -> Mark:
        database = open_database(database_url)
        try:
            await database.write(lambda connection: begin_incarnation(connection, 1, 0))
            mark = await database.read(read_mark)
        finally:
            await database.close()
        assert mark is not None
        return mark

    mark = asyncio.run(seen())
    later = Mark(mark.incarnation, mark.seq + 100, "later", mark.system, mark.timeline)
    data = here.directory / "data"
    place = place_of(Settings(database_url=database_url, data=data))
    asyncio.run(MarkFile(data / "ledger-mark.json").write(KeptMark(place, later)))
    return command


def test_doctor_says_that_the_ledger_went_back_and_what_to_do(went_back: Command) -> None:
    check = checks(went_back("doctor", "--json"))["ledger mark"]
    assert check["level"] == "fail"
    assert "events end at" in check["found"]
    assert "holdfast recover" in check["fix"]


@pytest.mark.parametrize("command", WRITING, ids=lambda command: command[0])
def test_nothing_is_written_to_a_ledger_that_went_back(went_back: Command, command: tuple[str, ...]) -> None:
    refused = went_back(*command, "--json")
    assert refused.code != 0
    assert "holdfast recover" in refused.refusal
    shown = went_back("pools", "list", "--json").json["data"]
    assert [pool["sku_id"] for pool in shown] == ["demo"], "reading goes on"
    assert went_back("recover", "--accept-loss", "--by", "ada", "--json").code == 0
    assert went_back(*command, "--json").code == 0
    assert checks(went_back("doctor", "--json"))["ledger mark"]["level"] == "ok"
