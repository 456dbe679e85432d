"""Rows of the tables as objects of the domain."""

from typing import Any

import msgspec
from sqlalchemy import Row

from holdfast.domain.sale.brand import Brand
from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import (
    AfterAttempts,
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
from holdfast.domain.stock.pool import Pool, Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.state import Remembered


def pool_from_row(row: Row[Any]) -> Pool:
    return Pool(
        row.sku_id,
        row.total,
        row.held,
        row.sold,
        row.active_reservations,
        row.ready,
        Rules(row.per_owner_limit, row.hold_budget, row.required_tier, row.opens_at, row.ends_at, row.paused),
    )


def reservation_from_row(row: Row[Any]) -> Reservation:
    return Reservation(
        row.reservation_id,
        row.sku_id,
        row.owner_id,
        row.quantity,
        Status(row.status),
        row.created_at,
        row.expires_at,
        row.attempts,
        row.confirmed_at,
    )


def remembered_from_row(row: Row[Any]) -> Remembered:
    reservation = Reservation(
        row.reservation_id, row.sku_id, row.owner_id, row.quantity, Status.ACTIVE, row.created_at, row.expires_at
    )
    return Remembered(row.owner_id, row.key, row.fingerprint, reservation)


def drop_from_row(row: Row[Any]) -> Drop:
    values = dict(row._mapping)  # noqa: SLF001 - the documented way to all columns of a row
    return Drop(**values | {"room": msgspec.json.decode(values["room"], type=Room)})


def sale_from_row(row: Row[Any]) -> Sale:
    values = dict(row._mapping)  # noqa: SLF001 - the documented way to all columns of a row
    work, brand = values["proof_of_work"], values["brand"]
    return Sale(
        **values
        | {
            "after_attempts": AfterAttempts(values["after_attempts"]),
            "checkout": Checkout(values["checkout"]),
            "payment": PaymentKind(values["payment"]),
            "oversell_policy": OversellPolicy(values["oversell_policy"]),
            "state": SaleState(values["state"]),
            "room": msgspec.json.decode(values["room"], type=Room),
            "proof_of_work": None if work is None else msgspec.json.decode(work, type=ProofOfWork),
            "brand": None if brand is None else msgspec.json.decode(brand, type=Brand),
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
        row.updated_at,
        row.confirmed_at,
        row.tracking,
        row.quote,
    )
