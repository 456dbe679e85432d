"""Why a buyer cannot be erased now."""

from sqlalchemy import ColumnElement, Connection, Table, exists, func, select

from holdfast.domain.stock.reservation import Status
from holdfast.ledger.erasure.parked import naming
from holdfast.ledger.tables.money import (
    is_open_refund,
    is_open_settlement,
    is_undecided,
    payments,
    refunds,
    settlements,
)
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import claims, parked_entries, reservations
from holdfast.ledger.tables.streams import parked_messages

_HELD = (Status.ACTIVE, Status.SETTLING)


def obstacles(connection: Connection, buyer_id: str) -> list[str]:
    """The reasons, in words."""
    is_theirs = exists().where(payments.c.payment_key == refunds.c.payment_key, payments.c.buyer_id == buyer_id)
    asked: list[tuple[str, Table, tuple[ColumnElement[bool], ...]]] = [
        ("live hold", reservations, (reservations.c.owner_id == buyer_id, reservations.c.status.in_(_HELD))),
        ("settling payment", settlements, (settlements.c.buyer_id == buyer_id, is_open_settlement)),
        ("parked payment", settlements, (settlements.c.buyer_id == buyer_id, settlements.c.state == "parked")),
        ("undecided charge", payments, (payments.c.buyer_id == buyer_id, is_undecided)),
        ("pending order", orders, (orders.c.buyer_id == buyer_id, orders.c.status == "pending")),
        ("open refund", refunds, (is_theirs, is_open_refund)),
        ("parked refund", refunds, (is_theirs, refunds.c.state == "parked")),
        ("sale on its way to the ledger", claims, (claims.c.owner_id == buyer_id,)),
    ]
    found = [(what, _count(connection, table, where)) for what, table, where in asked]
    for what, table in (("parked journal record", parked_entries), ("parked message", parked_messages)):
        found.append((what, len(naming(connection, table, "parked", buyer_id))))
    return [f"{count} {what}{'' if count == 1 else 's'}" for what, count in found if count]


def _count(connection: Connection, table: Table, where: tuple[ColumnElement[bool], ...]) -> int:
    return connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one()
