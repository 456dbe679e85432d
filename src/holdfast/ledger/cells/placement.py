"""The map in the control database: which cell each SKU and each sale is in."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, select, update

from holdfast.domain.stock.pool import Rules
from holdfast.ledger.tables.cells import cell_map, cell_sales, cell_skus

_NAME = "map"
_DROP = "drop/"


def drop_key(drop_id: str) -> str:
    """A drop is on the map like a SKU, under a key that no SKU can have."""
    return f"{_DROP}{drop_id}"


def drop_of(key: str) -> str | None:
    """The drop with this key on the map; None for a SKU."""
    return key.removeprefix(_DROP) if key.startswith(_DROP) else None


class Amounts(Struct, frozen=True):
    """The effects of a move, decided once nothing is held. The totals are absolute, so that an interrupted step can
    tell whether it was already done."""

    units: int
    # The total of the old cell's pool afterwards: the units sold there.
    stays: int
    # The total of the new cell's pool afterwards.
    total: int
    rules: Rules
    # Reservations made before this are in the old cell.
    until: int
    # The sales that have not begun. They move with the SKU; all others stay, with their orders.
    sale_ids: list[str]


class Move(Struct, frozen=True):
    to: str
    # None while waiting for held units. Until it is set, the move can be abandoned.
    amounts: Amounts | None = None


class PlacedSku(Struct, frozen=True):
    sku_id: str
    cell: str
    pinned: bool = False
    move: Move | None = None
    # Earlier cells, oldest first, each with the time until which the SKU was there.
    past: list[tuple[int, str]] = []

    def cell_at(self, at: int) -> str:
        return next((cell for until, cell in self.past if at < until), self.cell)

    def moved(self, move: Move, amounts: Amounts) -> "PlacedSku":
        """The cell of the SKU after the move."""
        return PlacedSku(self.sku_id, move.to, past=[*self.past, (amounts.until, self.cell)])

    def is_newer_than(self, other: "PlacedSku") -> bool:
        return other.move is None and len(self.past) > len(other.past)


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
    """The changes since a version; since 0, everything."""
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
    """Put a SKU into a cell, unless it already has one, and sales into the cell of their SKU. Returns the SKU's current
    cell. Raises `PlacedElsewhere` for a sale that is in another cell."""
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


def adopt(connection: Connection, sku_id: str, sale_ids: list[str], cell: str, known: PlacedSku | None) -> None:
    """Add to the map what a cell holds and the map lacks. `known`: what the cell noted when the SKU was moved."""
    version = _next_version(connection)
    found = find_sku(connection, sku_id)
    if found is None or (known is not None and known.is_newer_than(found)):
        _write(connection, known or PlacedSku(sku_id, cell), version)
    for sale_id in sale_ids:
        if connection.execute(select(cell_sales.c.cell).where(cell_sales.c.sale_id == sale_id)).scalar() is None:
            values = {"sale_id": sale_id, "sku_id": sku_id, "cell": cell, "version": version}
            connection.execute(insert(cell_sales).values(values))


def note_move(connection: Connection, moved: PlacedSku) -> None:
    """Note in a cell's own ledger where a SKU is that was moved into or out of the cell. A lost map is rebuilt from
    these notes."""
    _write(connection, moved, 0)


def noted_moves(connection: Connection) -> dict[str, PlacedSku]:
    return {row.sku_id: _sku(row) for row in connection.execute(select(cell_skus))}


def _write(connection: Connection, placed: PlacedSku, version: int) -> None:
    connection.execute(delete(cell_skus).where(cell_skus.c.sku_id == placed.sku_id))
    past = msgspec.json.encode(placed.past).decode() if placed.past else None
    values = {"sku_id": placed.sku_id, "cell": placed.cell, "past": past, "version": version}
    connection.execute(insert(cell_skus).values(values))


def set_pinned(connection: Connection, sku_id: str, cell: str, *, pinned: bool) -> None:
    """Reserve the cell for this SKU. A SKU in another cell must be moved first."""
    version = _next_version(connection)
    found = find_sku(connection, sku_id)
    if found is None:
        connection.execute(insert(cell_skus).values(sku_id=sku_id, cell=cell, pinned=pinned, version=version))
        return
    if found.cell != cell:
        raise PlacedElsewhere(f"{sku_id} is in the cell {found.cell}")
    connection.execute(update(cell_skus).where(cell_skus.c.sku_id == sku_id).values(pinned=pinned, version=version))


def change_move(connection: Connection, placed: PlacedSku, move: Move | None) -> PlacedSku | None:
    """Set the move of a SKU, which is not served until the move ends; with None, abandon it with nothing changed.
    Returns None if the SKU changed since it was read, because another command is working on it."""
    version = _next_version(connection)
    if find_sku(connection, placed.sku_id) != placed:
        return None
    text = None if move is None else msgspec.json.encode(move).decode()
    own = cell_skus.c.sku_id == placed.sku_id
    connection.execute(update(cell_skus).where(own).values(move=text, version=version))
    return replace(placed, move=move)


def end_move(connection: Connection, placed: PlacedSku, moved: PlacedSku, sale_ids: list[str]) -> None:
    """Record that the SKU and its sales are now in the other cell. Does nothing if another command recorded it
    before."""
    version = _next_version(connection)
    if find_sku(connection, placed.sku_id) != placed:
        return
    _write(connection, moved, version)
    going = cell_sales.c.sale_id.in_(sale_ids)
    connection.execute(update(cell_sales).where(going).values(cell=moved.cell, version=version))
