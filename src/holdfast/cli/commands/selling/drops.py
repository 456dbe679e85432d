"""`holdfast drops`."""

from typing import Annotated, Any

import typer
from msgspec import to_builtins
from sqlalchemy import Connection

from holdfast.bootstrap.background import sealer_of
from holdfast.cli.commands.pools import checked_id
from holdfast.cli.commands.selling.sales import LIST_LIMIT, minute_of
from holdfast.cli.commands.selling.terms import PassSeconds, Rate, Room, StartsAt, checked_as, room_of, start_of
from holdfast.cli.ledger import is_new, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_json, print_table
from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import RoomMode, in_words
from holdfast.domain.stock.limits import MAX_QUANTITY
from holdfast.http.contract.refusals import sale_refusal
from holdfast.http.contract.schemas.drops import DropIn, DropOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.drops import find_drop, list_drops, sales_of_drops
from holdfast.sales.drop_operations import CreatedDrop, DropOperations
from holdfast.sales.operations import Contradiction, Refusal
from holdfast.settings import Settings

app = typer.Typer(
    help="Create and show drops: several sales with one waiting room.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast drops create winter --per-buyer-limit 2 --room fifo",
        "holdfast sales create boot --drop winter --units 300 --price 9900 \\",
        "    --currency EUR --payment wallet",
        "holdfast drops show winter",
    ),
)


def _drop_id(text: str) -> str:
    return checked_id(text, "drop ID")


DropName = Annotated[str, typer.Argument(help="The drop ID.", metavar="DROP", callback=_drop_id)]


@app.command("list", epilog=examples("holdfast drops list", "holdfast drops list --json | jq '.data[].drop_id'"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all drops."""
    settings = settings_from(data)

    def read(connection: Connection) -> list[dict[str, Any]]:
        found, _ = list_drops(connection, limit=LIST_LIMIT, starting_after=None)
        return _bodies(connection, found)

    async def bodies(database: Database, _engine: object) -> list[dict[str, Any]]:
        return await database.read(read)

    found = [] if is_new(settings) else run_engine(settings, bodies)
    if as_json:
        print_json({"data": found})
    elif found:
        _print_drops(found)
    else:
        typer.echo(f"No drops in {shown_url(settings)} yet.")
        typer.echo("Create one with: holdfast drops create DROP --per-buyer-limit 2 --room fifo")


@app.command("show", epilog=examples("holdfast drops show winter", "holdfast drops show winter --json"))
def show(drop_id: DropName, data: Data = None, as_json: AsJson = False) -> None:
    """Show one drop and its sales."""
    settings = settings_from(data)

    def read(connection: Connection) -> dict[str, Any] | Refusal:
        found = find_drop(connection, drop_id)
        return Refusal.DROP_NOT_FOUND if found is None else _bodies(connection, [found])[0]

    async def body(database: Database, _engine: object) -> dict[str, Any] | Refusal:
        return await database.read(read)

    _print_result(Refusal.DROP_NOT_FOUND if is_new(settings) else run_engine(settings, body), as_json)


@app.command(
    "create",
    epilog=examples(
        "holdfast drops create winter --per-buyer-limit 2 --room fifo --rate 200",
        "holdfast drops create winter --starts-at 2030-01-31T18:00:00Z --room lottery",
    ),
)
def create(
    drop_id: DropName,
    name: Annotated[
        str | None, typer.Option(help="Name shown to buyers; default: the drop ID.", metavar="NAME")
    ] = None,
    starts_at: StartsAt = None,
    per_buyer_limit: Annotated[
        int | None,
        typer.Option(
            help="Maximum units per buyer in all of its sales together; default: any.",
            min=1,
            max=MAX_QUANTITY,
            metavar="N",
        ),
    ] = None,
    room: Room = RoomMode.OFF,
    rate: Rate = None,
    pass_seconds: PassSeconds = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a drop. Add its sales with: holdfast sales create SALE --drop DROP …"""
    settings = settings_from(data)
    given = checked_as(
        DropIn,
        drop_id=drop_id,
        name=name or drop_id,
        starts_at=start_of(starts_at),
        per_buyer_limit=per_buyer_limit,
        room=room_of(room, rate, pass_seconds),
    )
    _print_result(_created(settings, given.drop()), as_json)


def _created(settings: Settings, wanted: Drop) -> dict[str, Any] | Refusal | Contradiction:
    async def body(database: Database, _engine: object) -> dict[str, Any] | Refusal | Contradiction:
        made = await DropOperations(database, sealer_of(settings)).create(wanted)
        if not isinstance(made, CreatedDrop):
            return made
        return (await database.read(lambda c: _bodies(c, [made.drop])))[0]

    return run_engine(settings, body)


def _bodies(connection: Connection, found: list[Drop]) -> list[dict[str, Any]]:
    sales = sales_of_drops(connection, [drop.drop_id for drop in found])
    return [to_builtins(DropOut.of(drop, sales[drop.drop_id])) for drop in found]


def _print_result(answer: dict[str, Any] | Refusal | Contradiction, as_json: bool) -> None:
    if not isinstance(answer, dict):
        hint = "List them with: holdfast drops list" if answer is Refusal.DROP_NOT_FOUND else ""
        fail(sale_refusal(answer).detail, hint)
    if as_json:
        print_json(answer)
        return
    _print_drops([answer])
    if answer["sales"]:
        typer.echo()
        _print_sales(answer["sales"])


def _print_drops(bodies: list[dict[str, Any]]) -> None:
    columns = ["drop id", "name", "starts", "per buyer", "room", "sales"]
    rows = [
        (
            body["drop_id"],
            body["name"],
            minute_of(body["starts_at"]),
            body["per_buyer_limit"] or "any",
            body["room"]["mode"],
            len(body["sales"]),
        )
        for body in bodies
    ]
    print_table(columns, rows, folded="name")


def _print_sales(sales: list[dict[str, Any]]) -> None:
    columns = ["sale id", "sku id", "name", "price", "starts", "per buyer"]
    rows = [
        (
            sale["sale_id"],
            sale["sku_id"],
            sale["name"],
            in_words(sale["price"]["amount"], sale["price"]["currency"]),
            minute_of(sale["starts_at"]),
            sale["per_buyer_limit"] or "any",
        )
        for sale in sales
    ]
    print_table(columns, rows, folded="name")
