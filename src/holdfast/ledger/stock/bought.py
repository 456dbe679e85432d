"""How many units of a pool its buyers have bought, so that a gate that lost data does not sell above the limit."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, func, literal_column, select

from holdfast.domain.stock.reservation import Status
from holdfast.ledger.tables.money import payments
from holdfast.ledger.tables.stock import claims, is_counted_in, reservations

_CHARGED = ("claimed", "captured")


def bought_units(
    connection: Connection, sku_id: str, owners: Collection[str], *, with_payments: bool = False
) -> dict[str, int]:
    """Units that are sold or claimed; with payments, also those that are being charged."""
    bought: dict[str, int] = {}
    queries = [_sold(sku_id, owners), _claimed(sku_id, owners), *([_charged(sku_id, owners)] if with_payments else [])]
    for query in queries:
        for row in connection.execute(query):
            bought[row[0]] = bought.get(row[0], 0) + int(row[1])
    return bought


def _of_owners(sku_id: str, owners: Collection[str]) -> Select[Any]:
    # Uses the index of owners: see `batch.py` for why the condition on the pool must not match an index.
    is_theirs = [reservations.c.owner_id.in_(owners), reservations.c.sku_id.concat(literal_column("''")) == sku_id]
    units = func.sum(reservations.c.quantity)
    query = select(reservations.c.owner_id, units).where(*is_theirs, reservations.c.counted, is_counted_in(sku_id))
    return query.group_by(reservations.c.owner_id)


def _sold(sku_id: str, owners: Collection[str]) -> Select[Any]:
    return _of_owners(sku_id, owners).where(reservations.c.status == Status.CONFIRMED)


def _claimed(sku_id: str, owners: Collection[str]) -> Select[Any]:
    is_theirs = [
        claims.c.sku_id == sku_id,
        claims.c.owner_id.in_(owners),
        is_counted_in(sku_id, claims.c.created_at),
    ]
    return select(claims.c.owner_id, func.sum(claims.c.quantity)).where(*is_theirs).group_by(claims.c.owner_id)


def _charged(sku_id: str, owners: Collection[str]) -> Select[Any]:
    """Neither sold nor claimed yet, but they will be unless the money is returned."""
    unsold = reservations.c.reservation_id.not_in(select(claims.c.reservation_id).where(claims.c.sku_id == sku_id))
    paying = payments.c.reservation_id == reservations.c.reservation_id
    is_charged = [reservations.c.status == Status.SETTLING, payments.c.state.in_(_CHARGED), unsold]
    return _of_owners(sku_id, owners).join_from(reservations, payments, paying).where(*is_charged)
