"""`holdfast sales room`: the waiting room of a sale, and what `holdfast sales show` says of it."""

from typing import Annotated, Any

import typer
from msgspec import to_builtins
from sqlalchemy import Connection

from holdfast.cli.ledger import is_new, run
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_facts, print_json
from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import RoomMode, Sale
from holdfast.errors import SettingsError
from holdfast.http.contract.problems import SALE_NOT_FOUND
from holdfast.http.contract.schemas.room import RoomFactsOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import find_room, lock_room, update_room
from holdfast.ledger.sales.sales import find_sale

app = typer.Typer()


@app.command(
    "room",
    epilog=examples(
        "holdfast sales room drop", "holdfast sales room drop --rate 20", "holdfast sales room drop --pause"
    ),
)
def room(
    sale_id: Annotated[str, typer.Argument(help="The sale ID.", metavar="SALE")],
    rate: Annotated[int | None, typer.Option(help="Call this many buyers per second.", min=1, max=1_000_000)] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Pause calling people; the sale continues.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Call buyers again.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the waiting room of a sale.

    Sales of one drop share a room. A changed rate counts until it is changed again, whatever the sale says.
    """
    if pause and resume:
        raise SettingsError("--pause and --resume exclude each other")
    settings = settings_from(data)
    changes = ({} if rate is None else {"rate_per_second": rate}) | ({"paused": pause} if pause or resume else {})

    async def work(database: Database) -> tuple[Sale, RoomState] | str:
        return await database.write(lambda c: _changed(c, sale_id, changes, database.now_ms(c)))

    found = SALE_NOT_FOUND.detail if is_new(settings) else run(settings, work)
    if isinstance(found, str):
        fail(found, "List them with: holdfast sales list")
    if as_json:
        print_json(to_builtins(RoomFactsOut.of(*found)))
    else:
        print_facts(room_facts(*found))


def _changed(connection: Connection, sale_id: str, changes: dict[str, Any], now: int) -> tuple[Sale, RoomState] | str:
    sale = find_sale(connection, sale_id)
    if sale is None:
        return SALE_NOT_FOUND.detail
    if sale.room.mode is RoomMode.OFF:
        return f"the sale {sale_id} has no waiting room"
    lock_room(connection, sale.line_id)
    if changes:
        update_room(connection, sale.line_id, now, changes)
    found = find_room(connection, sale.line_id)
    assert found is not None, "a sale with a room has one from its creation on"
    return sale, found


def line_of(connection: Connection, sale: Sale) -> RoomState | None:
    return None if sale.room.mode is RoomMode.OFF else find_room(connection, sale.line_id)


def room_facts(sale: Sale, state: RoomState) -> dict[str, object]:
    rate = state.rate_per_second or sale.room.rate_per_second
    own = "" if rate == sale.room.rate_per_second else f" (the sale says {sale.room.rate_per_second:,}/s)"
    called = min(state.serving, state.joined)
    return {
        "room": f"{sale.room.mode}, paused: nobody is called" if state.paused else str(sale.room.mode),
        "rate": f"{rate:,}/s{own}, each with {sale.room.pass_seconds} s to buy",
        "line": f"{state.joined - called:,} waiting, {called:,} called, {state.joined:,} joined",
    }
