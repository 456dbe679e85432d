"""What a cell's own ledger holds: its name, its SKUs and sales, and its load."""

from msgspec import Struct
from sqlalchemy import Connection, func, insert, select

from holdfast.domain.sale.sale import SaleState
from holdfast.errors import SettingsError
from holdfast.ledger.cells.placement import PlacedSku, drop_key, noted_moves
from holdfast.ledger.tables.cells import cell_identity
from holdfast.ledger.tables.sales import drops, sales
from holdfast.ledger.tables.stock import pools


class Load(Struct, frozen=True, order=True):
    """Compares by how full a cell is; the smallest is the emptiest."""

    sales: int
    units: int


def claim_identity(connection: Connection, cell: str, now: int) -> None:
    """The first start names the ledger. Any other name is refused afterwards: the map would lead to the wrong sales."""
    known = connection.execute(select(cell_identity.c.cell)).scalar()
    if known is None:
        connection.execute(insert(cell_identity).values(cell=cell, since=now))
    elif known != cell:
        raise SettingsError(f"HOLDFAST_CELLS: the database of the cell {cell} is that of the cell {known}")


class Owned(Struct, frozen=True):
    """The SKUs of a cell with their sales, and the new cells of SKUs that were moved away."""

    sales: dict[str, list[str]]
    moved: dict[str, PlacedSku]


def owned_by(connection: Connection, cell: str) -> Owned:
    """A sale that is not closed is in the cell of its SKU, even if an interrupted move left a copy."""
    moved = noted_moves(connection)
    found: dict[str, list[str]] = {sku_id: [] for sku_id in connection.execute(select(pools.c.sku_id)).scalars()}
    wanted = select(sales.c.sku_id, sales.c.sale_id, sales.c.state).order_by(sales.c.created_at)
    for sku_id, sale_id, state in connection.execute(wanted):
        is_elsewhere = sku_id in moved and moved[sku_id].cell != cell
        if state == SaleState.CLOSED or not is_elsewhere:
            found.setdefault(sku_id, []).append(sale_id)
    drop_ids = connection.execute(select(drops.c.drop_id)).scalars()
    return Owned(found | {drop_key(drop_id): [] for drop_id in drop_ids}, moved)


def load_of(connection: Connection) -> Load:
    """How many sales are not closed, and how many of their units are unsold."""
    is_live = sales.c.state != SaleState.CLOSED
    count = connection.execute(select(func.count()).select_from(sales).where(is_live)).scalar_one()
    live = select(sales.c.sku_id).where(is_live)
    left = select(func.coalesce(func.sum(pools.c.total - pools.c.sold), 0)).where(pools.c.sku_id.in_(live))
    return Load(int(count), int(connection.execute(left).scalar_one()))


def skus_on_sale(connection: Connection) -> list[str]:
    """The SKUs in a sale that is not closed."""
    return sorted(connection.execute(select(sales.c.sku_id).where(sales.c.state != SaleState.CLOSED)).scalars())
