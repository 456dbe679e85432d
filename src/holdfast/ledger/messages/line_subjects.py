"""The subject of a message to people in a line: its sale, or in a drop's line one of its products."""

from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.domain.sale.sale import SaleState, line_id_of, line_of_sale
from holdfast.ledger.sales.sales import is_pool_of
from holdfast.ledger.tables.sales import drops, sales
from holdfast.ledger.tables.stock import pools


class Subject(Struct, frozen=True):
    """`facts`: values that the message has instead of the sale's own."""

    sale_id: str
    facts: dict[str, str]


def subject_of(connection: Connection, line_id: str) -> Subject | None:
    """For a drop, the first product that is left, or else the first, under the drop's name. None: the drop sends
    none."""
    drop_id = line_id.removeprefix(line_id_of(""))
    if drop_id == line_id:
        return Subject(line_id, {})
    is_closed = sales.c.state == SaleState.CLOSED
    wanted = select(sales.c.sale_id, sales.c.sku_id, is_closed.label("is_closed"))
    wanted = wanted.where(sales.c.drop_id == drop_id, sales.c.notify)
    found = connection.execute(wanted.order_by(is_closed, sales.c.created_at, sales.c.sale_id)).all()
    if not found:
        return None
    left = (row for row in found if not row.is_closed and not _is_all_sold(connection, row.sku_id))
    first = next(left, found[0])
    name = connection.execute(select(drops.c.name).where(drops.c.drop_id == drop_id)).scalar_one()
    return Subject(first.sale_id, {"name": name})


def line_sold_out(connection: Connection, sale_id: str) -> str | None:
    """The line that this sale serves, if everything sold to it is sold out."""
    sale = connection.execute(select(sales.c.drop_id, sales.c.sku_id).where(sales.c.sale_id == sale_id)).one()
    skus = [sale.sku_id]
    if sale.drop_id is not None:
        others = (sales.c.drop_id == sale.drop_id, sales.c.state != SaleState.CLOSED)
        skus += connection.execute(select(sales.c.sku_id).where(*others)).scalars()
    is_all_sold = all(_is_all_sold(connection, each) for each in skus)
    return line_of_sale(sale_id, sale.drop_id) if is_all_sold else None


def _is_all_sold(connection: Connection, sku_id: str) -> bool:
    """Whether all of its pools are sold out: each shard of a pool reports that separately."""
    counts = (func.sum(pools.c.total), func.sum(pools.c.sold))
    total, sold = connection.execute(select(*counts).where(is_pool_of(sku_id))).one()
    return bool(total) and total == sold
