"""`holdfast cells`."""

from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from holdfast.access.cell_stores import parse_cells
from holdfast.bootstrap.cells.moving import CannotMove, CellMover
from holdfast.bootstrap.cells.settings import settings_of
from holdfast.bootstrap.cells.sites import sites_of
from holdfast.cli.commands.pools import checked_id
from holdfast.cli.ledger import is_new, run, write
from holdfast.cli.options import Data, hide_secrets, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table, show_progress
from holdfast.errors import SettingsError
from holdfast.ledger.cells.own import skus_on_sale
from holdfast.ledger.cells.placement import (
    Amounts,
    MapChanges,
    PlacedElsewhere,
    drop_key,
    drop_of,
    find_sku,
    read_changes,
    set_pinned,
)
from holdfast.settings import Settings

app = typer.Typer(
    help="Show which cell each SKU is in, pin one to a cell, or move it.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast cells list",
        "holdfast cells pin sneaker-42 b",
        "holdfast cells unpin sneaker-42",
        "holdfast cells move sneaker-42 --to b",
    ),
)


def _sku_id(text: str) -> str:
    return checked_id(text, "SKU ID")


Sku = Annotated[str, typer.Argument(help="The SKU ID.", metavar="SKU", callback=_sku_id)]
CellName = Annotated[str, typer.Argument(help="A cell of HOLDFAST_CELLS.", metavar="CELL")]


def _settings(data: Any) -> Settings:
    settings = settings_from(data)
    if not settings.cells:
        raise SettingsError("HOLDFAST_CELLS is not set: there are no cells; see docs/CELLS.md")
    return settings


@app.command("list", epilog=examples("holdfast cells list", "holdfast cells list --json | jq '.data[].sku_ids'"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all cells with the SKUs and sales in them. Reads the map in the control database only."""
    settings = _settings(data)
    placed = MapChanges(0, [], []) if is_new(settings) else run(settings, _read_map)
    bodies = [
        _body(name, hide_secrets(stores.database_url), placed) for name, stores in parse_cells(settings.cells).items()
    ]
    if as_json:
        print_json({"version": placed.version, "data": bodies})
        return
    counted = ("sku_ids", "drop_ids", "sale_ids")
    rows = [
        (body["cell"], body["database"], ", ".join(body["pinned"]) or None, *(len(body[name]) for name in counted))
        for body in bodies
    ]
    print_table(["cell", "database", "pinned to it", "skus", "drops", "sales"], rows, folded="database")


async def _read_map(database: Any) -> MapChanges:
    found: MapChanges = await database.read(partial(read_changes, after=0))
    return found


def _body(cell: str, database: str, placed: MapChanges) -> dict[str, Any]:
    here = [sku for sku in placed.skus if sku.cell == cell]
    drop_ids = [drop_id for sku in here if (drop_id := drop_of(sku.sku_id)) is not None]
    skus = [sku for sku in here if drop_of(sku.sku_id) is None]
    return {
        "cell": cell,
        "database": database,
        "pinned": sorted(sku.sku_id for sku in skus if sku.pinned),
        "sku_ids": sorted(sku.sku_id for sku in skus),
        "drop_ids": sorted(drop_ids),
        "sale_ids": sorted(sale.sale_id for sale in placed.sales if sale.cell == cell),
    }


@app.command("pin", epilog=examples("holdfast cells pin sneaker-42 b"))
def pin(sku_id: Sku, cell: CellName, data: Data = None, as_json: AsJson = False) -> None:
    """Give a hot SKU a cell of its own.

    Its sales go to that cell, and no other SKU is put there. Pin it before its first sale: a SKU that is in another
    cell stays there. The cell must have no other sale that is not closed. Servers know within a second.
    """
    settings = _settings(data)
    others = _others_in(settings_of(settings, cell), sku_id)
    if others:
        fail(
            f"the cell {cell} is in use: {', '.join(others[:10])} on sale there", "Choose another, or close them first."
        )
    try:
        write(settings, lambda connection, _now: set_pinned(connection, sku_id, cell, pinned=True))
    except PlacedElsewhere as exc:
        fail(
            f"{exc}, and cannot be pinned to {cell}",
            f"Pin it to that one, or move it first: holdfast cells move {sku_id} --to {cell}",
        )
    text = f"{sku_id} has the cell {cell} to itself. Servers know within a second."
    print_either(as_json, {"sku_id": sku_id, "cell": cell, "pinned": True}, text)


def _others_in(cell: Settings, sku_id: str) -> list[str]:
    """What else is on sale in a cell."""
    if is_new(cell):
        return []

    async def read(database: Any) -> list[str]:
        found: list[str] = await database.read(skus_on_sale)
        return [each for each in found if each != sku_id]

    return run(cell, read)


@app.command("unpin", epilog=examples("holdfast cells unpin sneaker-42"))
def unpin(sku_id: Sku, data: Data = None, as_json: AsJson = False) -> None:
    """Share the cell of a pinned SKU again. The SKU stays in it."""

    def change(connection: Connection, _now: int) -> str | None:
        found = find_sku(connection, sku_id)
        if found is None:
            return None
        set_pinned(connection, sku_id, found.cell, pinned=False)
        return found.cell

    cell = write(_settings(data), change)
    if cell is None:
        fail(f"{sku_id} is in no cell", "List them with: holdfast cells list")
    text = f"{sku_id} stays in the cell {cell}, which others may use again."
    print_either(as_json, {"sku_id": sku_id, "cell": cell, "pinned": False}, text)


@app.command(
    "move",
    epilog=examples(
        "holdfast cells move sneaker-42 --to b", "holdfast cells move spring-drop --to b --wait-seconds 300"
    ),
)
def move(
    name: Annotated[str, typer.Argument(help="The SKU ID, or the ID of one of its sales.", metavar="SKU|SALE")],
    to: Annotated[str, typer.Option(help="A cell of HOLDFAST_CELLS.", metavar="CELL")],
    wait_seconds: Annotated[
        float, typer.Option(help="How long to wait for held units to be paid for or released.", min=0, metavar="S")
    ] = 30,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move a SKU to another cell between its sales.

    Its free units go there, and its sales that have not begun. What was sold stays, with its orders, and is still
    found. Refused while a sale of the SKU is open or opens within a minute, and if buyers have joined its line. Buyers
    are refused for some seconds. If the command is interrupted, repeat it: it continues where it was.
    """
    settings = _settings(data)
    settings_of(settings, to)

    async def work(control: Any) -> tuple[str, Amounts]:
        sku_id = await _sku_of(control, name)
        mover = CellMover(control, sites_of(settings), on_step=lambda step: show_progress(f"{sku_id}: {step}"))
        return sku_id, await mover.move(sku_id, to, wait_s=wait_seconds)

    try:
        sku_id, moved = run(settings, work)
    except CannotMove as exc:
        fail(str(exc))
    finally:
        show_progress("")
    sales = f" and the sales {', '.join(sorted(moved.sale_ids))}" if moved.sale_ids else ""
    text = f"{sku_id} is in the cell {to}, with {moved.units:,} units{sales}. Servers know within a second."
    body = {"sku_id": sku_id, "cell": to, "units": moved.units, "sale_ids": sorted(moved.sale_ids)}
    print_either(as_json, body, text)


async def _sku_of(control: Any, name: str) -> str:
    """A SKU, or that of a sale which is where its SKU is."""
    placed = await _read_map(control)
    if name in [sku.sku_id for sku in placed.skus]:
        return name
    cells = {sku.sku_id: sku.cell for sku in placed.skus}
    for sale in placed.sales:
        if sale.sale_id == name and sale.cell == cells.get(sale.sku_id):
            return sale.sku_id
    if drop_key(name) in [sku.sku_id for sku in placed.skus]:
        raise CannotMove(f"{name} is a drop, which stays in its cell; docs/CELLS.md says how to sell it in another")
    raise CannotMove(f"{name} is no SKU in a cell, and no sale that could be moved")
