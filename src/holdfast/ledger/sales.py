"""What the ledger knows about sales and orders."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, Row, insert, select, update

from holdfast.domain.sale import (
    Checkout,
    Order,
    OrderStatus,
    OversellPolicy,
    PaymentKind,
    ProofOfWork,
    Room,
    Sale,
    SaleState,
)
from holdfast.ledger.sale_tables import orders, sales
from holdfast.ledger.tables import pools


def is_pool_of(sku_id: str) -> ColumnElement[bool]:
    """The pool of a SKU, or its shards."""
    return (pools.c.sku_id == sku_id) | pools.c.sku_id.startswith(f"{sku_id}/", autoescape=True)


def insert_sale(connection: Connection, sale: Sale) -> None:
    connection.execute(insert(sales).values(**sale_values(sale)))


def put_pool_in_sale(connection: Connection, sku_id: str, sale_id: str) -> None:
    """From the next batch of the pool on, what is settled or sold there belongs to this sale."""
    connection.execute(update(pools).where(is_pool_of(sku_id)).values(sale_id=sale_id))


def update_sale(connection: Connection, sale_id: str, changes: Mapping[str, object]) -> None:
    connection.execute(update(sales).where(sales.c.sale_id == sale_id).values(**changes))


def find_sale(connection: Connection, sale_id: str) -> Sale | None:
    row = connection.execute(select(sales).where(sales.c.sale_id == sale_id)).one_or_none()
    return None if row is None else sale_from_row(row)


def find_order(connection: Connection, order_id: str) -> Order | None:
    row = connection.execute(select(orders).where(orders.c.order_id == order_id)).one_or_none()
    return None if row is None else order_from_row(row)


def sale_values(sale: Sale) -> dict[str, object]:
    """By column."""
    work = None if sale.proof_of_work is None else msgspec.json.encode(sale.proof_of_work).decode()
    return asdict(sale) | {"room": msgspec.json.encode(sale.room).decode(), "proof_of_work": work}


def sale_from_row(row: Row[Any]) -> Sale:
    values = dict(row._mapping)  # noqa: SLF001 - the documented way to all columns of a row
    work = values["proof_of_work"]
    return Sale(
        **values
        | {
            "checkout": Checkout(values["checkout"]),
            "payment": PaymentKind(values["payment"]),
            "oversell_policy": OversellPolicy(values["oversell_policy"]),
            "state": SaleState(values["state"]),
            "room": msgspec.json.decode(values["room"], type=Room),
            "proof_of_work": None if work is None else msgspec.json.decode(work, type=ProofOfWork),
        }
    )


def order_from_row(row: Row[Any]) -> Order:
    return Order(
        row.order_id,
        row.reservation_id,
        row.sale_id,
        row.buyer_id,
        row.quantity,
        row.amount,
        row.currency,
        OrderStatus(row.status),
        row.refunded_amount,
        row.created_at,
        PaymentKind(row.payment),
        row.units_to_source,
    )
