"""Finds the settler's orders without a payment, and records the result.

Lock order as in `tables/sales.py`: settlements before payments and orders.
"""

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, exists, insert, literal_column, select, update

from holdfast.domain.sale.sale import PaymentKind, payment_key_of
from holdfast.domain.sale.settling_case import PaymentStatus
from holdfast.ledger.engine.facts import record
from holdfast.ledger.money.settle_batch import CORRECTED, record_payment, record_settlement
from holdfast.ledger.tables.money import payments, settlements, wallet_entries
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.ledger.tables.stock import reservations

FINDINGS_MAX = 100

_CLOSED = ("done", "dropped")
_REFUSED = (PaymentStatus.DECLINED.value, PaymentStatus.VOIDED.value)
_MONEY = ("buyer_id", "amount", "currency", "sale_id", "reservation_id")


def orders_without_payment() -> Select[Any]:
    # A literal, so that the engines use the partial index.
    is_captured = payments.c.state == literal_column("'captured'")
    was_taken = exists().where(payments.c.reservation_id == orders.c.reservation_id, is_captured)
    is_ours = orders.c.payment != PaymentKind.EXTERNAL.value
    return select(orders).where(is_sold, is_ours, ~was_taken).limit(FINDINGS_MAX)


def keys_of(connection: Connection, reservation_id: str) -> list[str]:
    """The possible keys of its payment: its own, and those of the reservations it replaces."""
    keys, wanted = own_keys(connection, reservation_id), reservation_id
    before = settlements.c.reservation_id
    while found := connection.execute(select(before).where(settlements.c.successor_id == wanted).limit(1)).scalar():
        keys += own_keys(connection, found)
        wanted = found
    return keys


def own_keys(connection: Connection, reservation_id: str) -> list[str]:
    """One for each attempt to pay, the latest first."""
    begun = select(reservations.c.attempts).where(reservations.c.reservation_id == reservation_id)
    attempts: int = max(connection.execute(begun).scalar() or 1, 1)
    return [payment_key_of(reservation_id, attempt) for attempt in range(attempts, 0, -1)]


def paid_from_wallet(connection: Connection, order: Row[Any], keys: list[str]) -> str | None:
    """The transfer that paid for it, if there is one."""
    is_it = [wallet_entries.c.transfer_id.in_(keys), wallet_entries.c.account == f"buyer:{order.buyer_id}"]
    is_all = [wallet_entries.c.amount == -order.amount, wallet_entries.c.currency == order.currency]
    found: str | None = connection.execute(select(wallet_entries.c.transfer_id).where(*is_it, *is_all)).scalar()
    return found


def enter_payment(connection: Connection, order_id: str, key: str, reference: str | None, now: int) -> bool:
    """Write the missing payment, unless the order has one by now or the ledger has two candidates."""
    order = _lock_unpaid(connection, order_id)
    if order is None:
        return False
    values = {name: order._mapping[name] for name in _MONEY} | {  # noqa: SLF001 - as documented
        "provider": order.payment,
        "reference": reference,
        "state": PaymentStatus.CAPTURED.value,
        "reason": None,
        "updated_at": now,
    }
    is_other = (payments.c.reservation_id == order.reservation_id) & payments.c.state.not_in(_REFUSED)
    is_it = (payments.c.payment_key == key) | is_other
    known = list(connection.execute(select(payments.c.payment_key).where(is_it)).scalars())
    if not known:
        connection.execute(insert(payments).values(payment_key=key, created_at=now, **values))
    elif known == [key]:
        connection.execute(update(payments).where(payments.c.payment_key == key).values(**values))
    record_payment(connection, key, now)
    return known in ([], [key])


def park(connection: Connection, order_id: str, reason: str, now: int) -> None:
    """Park it for an operator, unless a worker has leased it."""
    order = _lock_unpaid(connection, order_id)
    if order is None:
        return
    said = {"state": "parked", "reason": reason, "leased_until": 0, "history": _history(now, reason)}
    parked = update(settlements).where(_is_work_of(order), settlements.c.state.in_(_CLOSED))
    if connection.execute(parked.values(**said, fence=settlements.c.fence + 1)).rowcount:
        record_settlement(connection, order.reservation_id, now)
        return
    if not connection.execute(select(exists().where(_is_work_of(order)))).scalar():
        connection.execute(insert(settlements).values(**_work(connection, order), **said, due_at=now, created_at=now))
        record_settlement(connection, order.reservation_id, now)


def accept(connection: Connection, reservation_id: str, now: int) -> bool:
    """Whether the parked item is an order without payment. If so, the order now counts as paid externally."""
    is_parked = (settlements.c.reservation_id == reservation_id) & (settlements.c.state == "parked")
    if connection.execute(select(settlements.c.fence).where(is_parked).with_for_update()).scalar() is None:
        return False
    is_it = orders_without_payment().where(orders.c.reservation_id == reservation_id)
    order = connection.execute(is_it).one_or_none()
    if order is None:
        return False
    taken_over = update(orders).where(orders.c.order_id == order.order_id)
    values = {"payment": PaymentKind.EXTERNAL.value, "updated_at": now}
    connection.execute(taken_over.values(**values))
    connection.execute(update(settlements).where(is_parked).values(state="dropped", fence=settlements.c.fence + 1))
    facts = {"orders": [{"order_id": order.order_id, **values}]}
    record(connection, order.sku_id, CORRECTED, now, facts, subject=reservation_id)
    record_settlement(connection, reservation_id, now)
    return True


def _lock_unpaid(connection: Connection, order_id: str) -> Row[Any] | None:
    """The order, if it still has no payment; its settlement is locked."""
    order = connection.execute(select(orders).where(orders.c.order_id == order_id)).one_or_none()
    if order is None:
        return None
    connection.execute(select(settlements.c.fence).where(_is_work_of(order)).with_for_update())
    return connection.execute(orders_without_payment().where(orders.c.order_id == order_id)).one_or_none()


def _is_work_of(order: Row[Any]) -> ColumnElement[bool]:
    reservation_id: str = order.reservation_id
    return settlements.c.reservation_id == reservation_id


def _work(connection: Connection, order: Row[Any]) -> dict[str, object]:
    names = ("reservation_id", "sale_id", "sku_id", "buyer_id", "quantity")
    work = {name: order._mapping[name] for name in names}  # noqa: SLF001 - as documented
    # An order has the SKU. A settlement belongs to the pool, which may be one shard of several.
    pool = select(reservations.c.sku_id).where(reservations.c.reservation_id == order.reservation_id)
    return work | {"sku_id": connection.execute(pool).scalar() or order.sku_id}


def _history(now: int, reason: str) -> str:
    return msgspec.json.encode([{"at": now, "step": "audit", "error": reason}]).decode()
