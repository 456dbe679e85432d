"""Statistics of a sold-out sale."""

from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.domain.sale.sale import RoomMode, Sale
from holdfast.ledger.room.queries import last_served_place
from holdfast.ledger.tables.sales import is_sold, orders


class SoldOut(Struct, frozen=True):
    """`at`: when the last unit was paid. `last_position`: the position of the last buyer in line, from 1."""

    at: int
    took_ms: int
    units: int
    last_position: int | None = None


def sold_out_story(connection: Connection, sale: Sale) -> SoldOut | None:
    """None before anything was sold."""
    paid = select(func.max(orders.c.confirmed_at), func.sum(orders.c.quantity))
    at, units = connection.execute(paid.where(orders.c.sale_id == sale.sale_id, is_sold)).one()
    if at is None:
        return None
    # In a drop the line serves other sales, too.
    has_line = sale.room.mode is not RoomMode.OFF and sale.drop_id is None
    place = last_served_place(connection, sale.sale_id) if has_line else None
    opened_at = max(sale.starts_at, sale.created_at)
    return SoldOut(at, max(at - opened_at, 0), int(units), None if place is None else place + 1)
