"""Current levels of the sales that are not closed: the line, and open payments."""

from sqlalchemy import Connection, func, select

from holdfast.domain.sale.sale import SaleState, line_of_sale
from holdfast.domain.stock.shards import whole_of
from holdfast.ledger.room.rooms import room_from_row
from holdfast.ledger.stock.history import LEVEL
from holdfast.ledger.tables.money import is_open_settlement, settlements
from holdfast.ledger.tables.room import rooms
from holdfast.ledger.tables.sales import sales

# By SKU and name.
Levels = dict[tuple[str, str], int]
SALES_MAX = 50
# People may stand in line for this long before a sale opens, and the history includes that time.
EARLY_MS = 3_600_000


def levels_of_sales(connection: Connection, now: int) -> Levels:
    """Three queries, however many sales there are."""
    wanted = select(sales.c.sale_id, sales.c.sku_id, sales.c.drop_id).where(
        sales.c.state != SaleState.CLOSED, sales.c.starts_at <= now + EARLY_MS
    )
    found = connection.execute(wanted.order_by(sales.c.starts_at.desc(), sales.c.sale_id).limit(SALES_MAX)).all()
    if not found:
        return {}
    skus_of: dict[str, list[str]] = {}
    for sale in found:
        skus_of.setdefault(line_of_sale(sale.sale_id, sale.drop_id), []).append(sale.sku_id)
    levels: Levels = {}
    for sku_id in (sale.sku_id for sale in found):
        levels |= {(sku_id, f"{LEVEL}open"): 0, (sku_id, f"{LEVEL}oldest_ms"): 0}
    for row in connection.execute(select(rooms).where(rooms.c.sale_id.in_(skus_of))):
        room = room_from_row(row)
        inside = max(room.called, 0) + max(room.passes, 0)
        for name, number in (("joined", room.joined), ("serving", room.serving), ("inside", inside)):
            levels |= {(sku_id, LEVEL + name): number for sku_id in skus_of[row.sale_id]}
    _add_settlements(connection, levels, now)
    return levels


def _add_settlements(connection: Connection, levels: Levels, now: int) -> None:
    wanted = select(settlements.c.sku_id, func.count(), func.min(settlements.c.created_at)).where(is_open_settlement)
    for pool, count, oldest in connection.execute(wanted.group_by(settlements.c.sku_id)):
        sku_id = whole_of(pool)
        if (sku_id, f"{LEVEL}open") in levels:
            levels[sku_id, f"{LEVEL}open"] += count
            age, name = max(now - oldest, 0), (sku_id, f"{LEVEL}oldest_ms")
            levels[name] = max(levels[name], age)
