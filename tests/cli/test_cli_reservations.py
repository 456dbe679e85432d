"""`holdfast reservations`."""

import asyncio

import pytest
from cli_running import Cli, Here

from holdfast.domain.stock.command import Move, Provision, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def confirmed(database_url: str) -> str:
    """The ID of a confirmed reservation."""
    reservation_id = new_reservation_id("demo", "ada")
    confirm = Move(Transition.CONFIRM, reservation_id)

    async def sell() -> None:
        database = open_database(database_url)
        await migrate(database)
        await SqlGate(database).apply("demo", [Provision(5), Reserve(reservation_id, "buyer-42", 2, 2), confirm])
        await database.close()

    asyncio.run(sell())
    return reservation_id


def test_a_reservation_is_shown_with_its_history(here: Here, database_url: str, confirmed: str) -> None:
    shown = here("reservations", "show", confirmed, "--json", DATABASE_URL=database_url).json
    assert (shown["reservation_id"], shown["owner_id"], shown["quantity"]) == (confirmed, "buyer-42", 2)
    assert shown["status"] == "confirmed"
    assert [event["type"] for event in shown["events"]] == ["reservation.created", "reservation.confirmed"]

    shown = Cli(here.directory)("reservations", "show", confirmed, DATABASE_URL=database_url)
    facts = dict(line.split(maxsplit=1) for line in shown.lines[:3])
    assert facts == {"reservation": confirmed, "sku": "id       demo", "owner": "buyer-42"}
    assert [line.split()[2] for line in shown.lines[-2:]] == ["reservation.created", "reservation.confirmed"]
    assert max(map(len, shown.lines)) <= 80

    unknown = here("reservations", "show", "rsv_nothing", "--json", DATABASE_URL=database_url)
    assert unknown.code == 1
    assert "there is no reservation 'rsv_nothing'" in unknown.refusal
