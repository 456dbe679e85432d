"""What waits for a person: everything that was tried often enough, with what happened, to be tried again or given up.

Giving up keeps the promise that no charge is without an order or a refund. A settlement is dropped only once it is sure
that no money was taken: the provider is asked, what is set aside is let go, and then the units return. If money was
taken, or nobody can say, it is refused. A refund of money that belongs to no order that stands cannot be dropped.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Table, func, select, update

from holdfast.domain.sale import OrderStatus, PaymentKind, payment_key_of
from holdfast.domain.settling import PaymentMark
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.deliveries import drop_delivery, retry_delivery
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.ledger.settle_batch import Item
from holdfast.ledger.webhook_tables import deliveries
from holdfast.payments.port import Payment, PaymentProvider, PaymentState
from holdfast.settlement.case import Dropped
from holdfast.settlement.settle import Settler

LIST_MAX = 1_000
_TABLES: dict[str, tuple[Table, str]] = {
    "settlement": (settlements, "reservation_id"),
    "refund": (refunds, "refund_id"),
    "delivery": (deliveries, "delivery_id"),
}
_MAYBE_TAKEN = (PaymentMark.ATTEMPTED, PaymentMark.AUTHORISED, PaymentMark.CLAIMED)


class ParkedItem(Struct, frozen=True):
    parked_id: str
    kind: str
    reason: str | None
    attempts: int
    created_at: int
    history: list[dict[str, Any]]


class NotParked(Exception):
    pass


class DropRefused(Exception):
    """Money is out, or may be. The message says what to do instead."""


class Parked:
    def __init__(self, database: Database, settler: Settler, providers: Mapping[str, PaymentProvider]) -> None:
        self._database = database
        self._settler = settler
        self._providers = providers

    async def items(self) -> list[ParkedItem]:
        return await self._database.read(lambda c: [item for kind in _TABLES for item in _items(c, kind)])

    async def retry(self, parked_id: str) -> None:
        kind, table, column, id_ = _named(parked_id)

        def work(connection: Connection) -> int:
            now = self._database.now_ms(connection)
            values: dict[str, object] = {"state": "waiting", "attempts": 0, "due_at": now, "leased_until": 0}
            is_found = _update_parked(connection, table, column, id_, values)
            if is_found and kind == "delivery":
                retry_delivery(connection, id_, now)
            return is_found

        if not await self._database.write(work):
            raise NotParked
        if kind == "settlement":
            self._settler.nudge()

    async def drop(self, parked_id: str) -> None:
        kind, table, column, id_ = _named(parked_id)
        if kind == "settlement":
            await self._drop_settlement(id_)
            return
        if kind == "refund":
            await self._database.read(lambda c: _check_refund(c, id_))

        def work(connection: Connection) -> int:
            if kind == "delivery":
                return drop_delivery(connection, id_, self._database.now_ms(connection))
            return _update_parked(connection, table, column, id_, {"state": "dropped"})

        if not await self._database.write(work):
            raise NotParked

    async def _drop_settlement(self, reservation_id: str) -> None:
        payment = await self._database.read(lambda c: _payment(c, reservation_id))
        if payment is not None:
            await self._let_go(payment)
        item = await self._database.write(lambda c: self._take(c, reservation_id))
        await self._settler.finish(item, Dropped())

    async def _let_go(self, payment: Any) -> None:
        """Make sure that no money is out."""
        if payment.state == PaymentMark.CAPTURED:
            raise DropRefused("The money was taken. Retry it: it ends as an order or a refund.")
        if payment.state not in _MAYBE_TAKEN:
            return
        provider = self._providers.get(PaymentKind(payment.provider))
        if provider is None:
            raise DropRefused(f"Nobody can say whether money was taken: {payment.provider} is not configured.")
        try:
            known = await provider.look_up(payment.payment_key)
            if known is not None and known.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
                known = await provider.void(Payment(known.key, known.state, known.reference, amount=known.amount))
        except EngineError as exc:
            raise DropRefused(f"Nobody can say whether money was taken: {exc}") from exc
        if known is not None and known.state not in (PaymentState.VOIDED, PaymentState.DECLINED):
            raise DropRefused(f"The payment is {known.state}. Retry it: it ends as an order or a refund.")

    def _take(self, connection: Connection, reservation_id: str) -> Item:
        """Like a lease: from now on nobody else writes to it."""
        now = self._database.now_ms(connection)
        values = {"state": "waiting", "fence": settlements.c.fence + 1, "due_at": now, "leased_until": now + 30_000}
        is_it = [settlements.c.reservation_id == reservation_id, settlements.c.state == "parked"]
        taken = update(settlements).where(*is_it).values(**values).returning(settlements.c.sku_id, settlements.c.fence)
        row = connection.execute(taken).one_or_none()
        if row is None:
            raise NotParked
        return Item(reservation_id, row.sku_id, row.fence)


def _named(parked_id: str) -> tuple[str, Table, str, str]:
    kind, _, id_ = parked_id.partition(":")
    if kind not in _TABLES:
        raise NotParked
    return kind, *_TABLES[kind], id_


def _items(connection: Connection, kind: str) -> list[ParkedItem]:
    table, column = _TABLES[kind]
    rows = connection.execute(
        select(table).where(table.c.state == "parked").order_by(table.c.created_at).limit(LIST_MAX)
    )
    return [
        ParkedItem(
            f"{kind}:{row._mapping[column]}",  # noqa: SLF001 - the documented way to a column by its name
            kind,
            row.reason,
            row.attempts,
            row.created_at,
            msgspec.json.decode(row.history or "[]"),
        )
        for row in rows
    ]


def count_parked(connection: Connection) -> dict[str, int]:
    return {
        kind: connection.execute(select(func.count()).where(table.c.state == "parked")).scalar_one()
        for kind, (table, _) in _TABLES.items()
    }


def _update_parked(connection: Connection, table: Table, column: str, id_: str, values: dict[str, object]) -> int:
    is_it = [table.c[column] == id_, table.c.state == "parked"]
    return connection.execute(update(table).where(*is_it).values(**values)).rowcount


def _payment(connection: Connection, reservation_id: str) -> Any:
    key = payment_key_of(reservation_id)
    return connection.execute(select(payments).where(payments.c.payment_key == key)).one_or_none()


def _check_refund(connection: Connection, refund_id: str) -> None:
    order_id = connection.execute(select(refunds.c.order_id).where(refunds.c.refund_id == refund_id)).scalar()
    status = connection.execute(select(orders.c.status).where(orders.c.order_id == order_id)).scalar()
    if status not in (OrderStatus.CONFIRMED, OrderStatus.REFUNDED):
        raise DropRefused("The buyer paid for nothing that stands, so the money must go back. Retry it.")
