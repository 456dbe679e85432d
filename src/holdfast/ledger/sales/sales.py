"""Queries on single sales and orders."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, bindparam, exists, insert, select, update

from holdfast.domain.sale.sale import Order, Sale
from holdfast.ledger.engine.facts import record
from holdfast.ledger.tables.rows import order_from_row, sale_from_row
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import pools, reservations


def is_pool_of(sku_id: str) -> ColumnElement[bool]:
    """The pool of a SKU, or its shards."""
    return (pools.c.sku_id == sku_id) | pools.c.sku_id.startswith(f"{sku_id}/", autoescape=True)


def insert_sale(connection: Connection, sale: Sale) -> None:
    values = sale_values(sale)
    connection.execute(insert(sales).values(**values))
    record_sale(connection, sale.sku_id, values, sale.created_at, event="sale.created")


def record_sale(
    connection: Connection,
    sku_id: str,
    changes: Mapping[str, object],
    now: int,
    *,
    event: str | None = None,
    before: Mapping[str, object] | None = None,
) -> None:
    """Record the event of a change of a sale, with the changed columns and, if known, their old values."""
    facts: dict[str, object] = {"sales": [changes], **({} if before is None else {"before": before})}
    record(connection, sku_id, event or "sale.changed", now, facts, subject=changes["sale_id"])


def count_anew(connection: Connection, sku_id: str, sale_id: str, now: int) -> list[str]:
    """Make limits per owner ignore everything reserved until now, unless the pool is already in this sale. Returns the
    pool, or those of its shards, for which that makes a difference."""
    has_some = exists().where(reservations.c.sku_id == pools.c.sku_id)
    is_taken_over = (is_pool_of(sku_id), pools.c.sale_id.is_distinct_from(sale_id), has_some)
    reset = update(pools).where(*is_taken_over).values(counted_from=pools.c.decided_at)
    rows = connection.execute(reset.returning(pools.c.sku_id, pools.c.counted_from)).all()
    if rows:
        facts = [{"sku_id": row.sku_id, "counted_from": row.counted_from} for row in rows]
        record(connection, sku_id, "pool.counted_anew", now, {"pools": facts})
    return [row.sku_id for row in rows]


def put_pool_in_sale(connection: Connection, sku_id: str, sale_id: str, now: int) -> None:
    """From the next batch on, settlements and sales in this pool belong to the sale."""
    put = update(pools).where(is_pool_of(sku_id)).values(sale_id=sale_id).returning(pools.c.sku_id)
    rows = [{"sku_id": name, "sale_id": sale_id} for name in sorted(connection.execute(put).scalars())]
    if rows:
        record(connection, sku_id, "pool.in_sale", now, {"pools": rows}, subject=sale_id)


_FIND = select(sales).where(sales.c.sale_id == bindparam("sale_id"))


def find_sale(connection: Connection, sale_id: str) -> Sale | None:
    row = connection.execute(_FIND, {"sale_id": sale_id}).one_or_none()
    return None if row is None else sale_from_row(row)


def find_order(connection: Connection, order_id: str) -> Order | None:
    row = connection.execute(select(orders).where(orders.c.order_id == order_id)).one_or_none()
    return None if row is None else order_from_row(row)


def sale_values(sale: Sale) -> dict[str, object]:
    """By column."""
    return asdict(sale) | {
        "room": _json(sale.room),
        "proof_of_work": _json(sale.proof_of_work),
        "brand": _json(sale.brand),
    }


def _json(value: Struct | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
