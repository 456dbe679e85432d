"""The map in the control database: which cell each SKU and each sale is in."""

from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, insert, select, update

from holdfast.ledger.tables.cells import cell_map, cell_sales, cell_skus

_NAME = "map"


def drop_key(drop_id: str) -> str:
    """A drop is on the map like a SKU, under a name that no SKU can have."""
    return f"drop/{drop_id}"


class Move(Struct, frozen=True):
    """What is being moved. All numbers are absolute, so that every step can be repeated after a failure."""

    to: str
    # Of the pool in the old cell afterwards: what is sold there.
    stays: int
    # Of the pool in the new cell afterwards.
    total: int
    # The sales that go with it.
    sale_ids: list[str]


class PlacedSku(Struct, frozen=True):
    sku_id: str
    cell: str
    pinned: bool = False
    move: Move | None = None
    # The cells that it was in before, each with the time until when, oldest first.
    past: list[tuple[int, str]] = []

    def cell_at(self, at: int) -> str:
        return next((cell for until, cell in self.past if at < until), self.cell)


class PlacedSale(Struct, frozen=True):
    sale_id: str
    sku_id: str
    cell: str


class MapChanges(Struct, frozen=True):
    version: int
    skus: list[PlacedSku]
    sales: list[PlacedSale]


class PlacedElsewhere(Exception):
    """The SKU, or the sale, is in another cell."""


def read_changes(connection: Connection, after: int) -> MapChanges:
    """What was changed after a version; all of it after 0."""
    version = connection.execute(select(cell_map.c.version).where(cell_map.c.name == _NAME)).scalar() or 0
    if version <= after:
        return MapChanges(after, [], [])
    skus = connection.execute(select(cell_skus).where(cell_skus.c.version > after))
    sales = connection.execute(select(cell_sales).where(cell_sales.c.version > after))
    return MapChanges(
        version, [_sku(row) for row in skus], [PlacedSale(row.sale_id, row.sku_id, row.cell) for row in sales]
    )


def _sku(row: Any) -> PlacedSku:
    move = None if row.move is None else msgspec.json.decode(row.move, type=Move)
    past = [] if row.past is None else msgspec.json.decode(row.past, type=list[tuple[int, str]])
    return PlacedSku(row.sku_id, row.cell, row.pinned, move, past)


def _next_version(connection: Connection) -> int:
    """Locks the map until the transaction ends."""
    advanced = update(cell_map).where(cell_map.c.name == _NAME).values(version=cell_map.c.version + 1)
    version = connection.execute(advanced.returning(cell_map.c.version)).scalar()
    if version is None:
        version = 1
        connection.execute(insert(cell_map).values(name=_NAME, version=version))
    return int(version)


def find_sku(connection: Connection, sku_id: str) -> PlacedSku | None:
    row = connection.execute(select(cell_skus).where(cell_skus.c.sku_id == sku_id)).one_or_none()
    return None if row is None else _sku(row)


def place(connection: Connection, sku_id: str, sale_ids: list[str], cell: str) -> PlacedSku:
    """Put a SKU into a cell, unless it is somewhere already, and sales into the cell of their SKU. Returns where it is
    now. Raises `PlacedElsewhere` for a sale that is in another cell."""
    version = _next_version(connection)
    found = find_sku(connection, sku_id)
    if found is None:
        found = PlacedSku(sku_id, cell)
        connection.execute(insert(cell_skus).values(sku_id=sku_id, cell=cell, version=version))
    for sale_id in sale_ids:
        known = connection.execute(select(cell_sales.c.cell).where(cell_sales.c.sale_id == sale_id)).scalar()
        if known is None:
            values = {"sale_id": sale_id, "sku_id": sku_id, "cell": found.cell, "version": version}
            connection.execute(insert(cell_sales).values(values))
        elif known != found.cell:
            raise PlacedElsewhere(f"the sale {sale_id} is in the cell {known}")
    return found


def adopt(connection: Connection, sku_id: str, sale_ids: list[str], cell: str) -> None:
    """Put on the map what a cell has and the map has not."""
    version = _next_version(connection)
    if find_sku(connection, sku_id) is None:
        connection.execute(insert(cell_skus).values(sku_id=sku_id, cell=cell, version=version))
    for sale_id in sale_ids:
        if connection.execute(select(cell_sales.c.cell).where(cell_sales.c.sale_id == sale_id)).scalar() is None:
            values = {"sale_id": sale_id, "sku_id": sku_id, "cell": cell, "version": version}
            connection.execute(insert(cell_sales).values(values))


def set_pinned(connection: Connection, sku_id: str, cell: str, *, pinned: bool) -> None:
    """The SKU has the cell to itself. One that is in another cell has to be moved first."""
    version = _next_version(connection)
    found = find_sku(connection, sku_id)
    if found is None:
        connection.execute(insert(cell_skus).values(sku_id=sku_id, cell=cell, pinned=pinned, version=version))
        return
    if found.cell != cell:
        raise PlacedElsewhere(f"{sku_id} is in the cell {found.cell}")
    connection.execute(update(cell_skus).where(cell_skus.c.sku_id == sku_id).values(pinned=pinned, version=version))


def begin_move(connection: Connection, sku_id: str, move: Move | None) -> None:
    """From now on nobody is served. None: nothing was moved, and all is as before."""
    text = None if move is None else msgspec.json.encode(move).decode()
    values = {"move": text, "version": _next_version(connection)}
    connection.execute(update(cell_skus).where(cell_skus.c.sku_id == sku_id).values(values))


def end_move(connection: Connection, sku_id: str, now: int) -> None:
    """The SKU and the sales that go with it are in the other cell."""
    version = _next_version(connection)
    found = find_sku(connection, sku_id)
    if found is None or found.move is None:
        return
    move, past = found.move, msgspec.json.encode([*found.past, (now, found.cell)]).decode()
    values = {"cell": move.to, "move": None, "past": past, "pinned": False, "version": version}
    connection.execute(update(cell_skus).where(cell_skus.c.sku_id == sku_id).values(values))
    going = cell_sales.c.sale_id.in_(move.sale_ids)
    connection.execute(update(cell_sales).where(going).values(cell=move.to, version=version))
