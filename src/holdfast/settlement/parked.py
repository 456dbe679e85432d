"""What waits for a person: everything that was tried often enough, with what happened, to be tried again or given up.

Giving up keeps the promise that no charge is without an order or a refund. A settlement is dropped only once it is sure
that no money was taken: the provider is asked, what is set aside is let go, and then the units return. If money was
taken, or nobody can say, it is refused. A refund is dropped only while its order stands, and once it is sure that the
money did not go back after all: otherwise it could be asked for, and go back, a second time. Of an order that has no
payment, dropping means that it stands as one that was paid outside.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Table, func, literal_column, or_, select, update

from holdfast.domain.sale import OrderStatus, PaymentKind, payment_key_of
from holdfast.domain.settling import PaymentMark
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.deliveries import drop_delivery, retry_delivery
from holdfast.ledger.refunds import PAID_IN_LEDGER, lock_order, payment_of, provider_of
from holdfast.ledger.sale_tables import payments, refunds, settlements
from holdfast.ledger.settle_batch import Item
from holdfast.ledger.unpaid_orders import accept
from holdfast.ledger.webhook_tables import deliveries
from holdfast.payments.port import Payment, PaymentProvider, PaymentState
from holdfast.settlement.case import Dropped
from holdfast.settlement.settle import Settler

LIST_MAX = 100
_TABLES: dict[str, tuple[Table, str]] = {
    "settlement": (settlements, "reservation_id"),
    "refund": (refunds, "refund_id"),
    "delivery": (deliveries, "delivery_id"),
}
KINDS = tuple(_TABLES)
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

    async def items(
        self, *, kind: str | None = None, limit: int = LIST_MAX, starting_after: str | None = None
    ) -> tuple[list[ParkedItem], bool]:
        """By kind and id, of all kinds or one. Returns one page, and whether there is more."""
        return await self._database.read(lambda c: _page(c, kind, limit, starting_after))

    async def retry_all(self, kind: str) -> int:
        """Try everything of a kind again that is parked now; gives how many there were."""
        retried, after = 0, None
        while True:
            page, has_more = await self.items(kind=kind, starting_after=after)
            for item in page:
                with suppress(NotParked):
                    await self.retry(item.parked_id)
                    retried += 1
            if not has_more:
                return retried
            after = page[-1].parked_id

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
        kind, _, _, id_ = _named(parked_id)
        if kind == "settlement":
            await self._drop_settlement(id_)
        elif kind == "refund":
            await self._drop_refund(id_)
        elif not await self._database.write(lambda c: drop_delivery(c, id_, self._database.now_ms(c))):
            raise NotParked

    async def _drop_refund(self, refund_id: str) -> None:
        refund, kind, reference, done = await self._database.read(lambda c: _refund(c, refund_id))
        if kind not in PAID_IN_LEDGER and refund.amount:
            known = await self._look_up(kind, refund.payment_key, reference, "went back")
            if known is not None and known.refunded > done:
                raise DropRefused(f"{known.refunded} went back, and the ledger knows of {done}. Retry it.")
        await self._database.write(lambda c: _give_up_refund(c, refund))

    async def _drop_settlement(self, reservation_id: str) -> None:
        if await self._database.write(lambda c: accept(c, reservation_id)):
            return
        for payment in await self._database.read(lambda c: _payments(c, reservation_id)):
            await self._let_go(payment)
        item = await self._database.write(lambda c: self._take(c, reservation_id))
        await self._settler.finish(item, Dropped())

    async def _let_go(self, payment: Any) -> None:
        """Make sure that no money is out."""
        if payment.state == PaymentMark.CAPTURED:
            raise DropRefused("The money was taken. Retry it: it ends as an order or a refund.")
        if payment.state not in _MAYBE_TAKEN:
            return
        kind = PaymentKind(payment.provider)
        known = await self._look_up(kind, payment.payment_key, payment.reference, "was taken")
        if known is not None and known.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            set_aside = Payment(known.key, known.state, known.reference, amount=known.amount)
            try:
                known = await self._providers[kind].void(set_aside)
            except EngineError as exc:
                raise DropRefused(f"Nobody can say whether money was taken: {exc}") from exc
        if known is not None and known.state not in (PaymentState.VOIDED, PaymentState.DECLINED):
            raise DropRefused(f"The payment is {known.state}. Retry it: it ends as an order or a refund.")

    async def _look_up(self, kind: PaymentKind, payment_key: str, reference: str | None, what: str) -> Payment | None:
        provider = self._providers.get(kind)
        if provider is None:
            raise DropRefused(f"Nobody can say whether money {what}: {kind} is not configured.")
        try:
            return await provider.look_up(payment_key, reference)
        except EngineError as exc:
            raise DropRefused(f"Nobody can say whether money {what}: {exc}") from exc

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


def _page(
    connection: Connection, kind: str | None, limit: int, starting_after: str | None
) -> tuple[list[ParkedItem], bool]:
    after_kind, _, after_id = (starting_after or "").partition(":")
    found: list[ParkedItem] = []
    for name in sorted(_TABLES):
        if kind in (None, name) and name >= after_kind and len(found) <= limit:
            found += _items(connection, name, limit + 1 - len(found), after_id if name == after_kind else "")
    return found[:limit], len(found) > limit


def _items(connection: Connection, kind: str, limit: int, after_id: str) -> list[ParkedItem]:
    table, column = _TABLES[kind]
    wanted = select(table).where(_is_parked(table), table.c[column] > after_id)
    rows = connection.execute(wanted.order_by(table.c[column]).limit(limit))
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
        kind: connection.execute(select(func.count()).select_from(table).where(_is_parked(table))).scalar_one()
        for kind, (table, _) in _TABLES.items()
    }


def _is_parked(table: Table) -> ColumnElement[bool]:
    """Written out, so that the engines see that the partial index serves the question."""
    return table.c.state == literal_column("'parked'")


def _update_parked(connection: Connection, table: Table, column: str, id_: str, values: dict[str, object]) -> int:
    is_it = [table.c[column] == id_, table.c.state == "parked"]
    return connection.execute(update(table).where(*is_it).values(**values)).rowcount


def _payments(connection: Connection, reservation_id: str) -> list[Any]:
    """The reservation's own, and one that came from another or went on to one: wherever its money may be."""
    successor = select(settlements.c.successor_id).where(settlements.c.reservation_id == reservation_id)
    is_of_it = or_(
        payments.c.payment_key == payment_key_of(reservation_id),
        payments.c.reservation_id == reservation_id,
        payments.c.reservation_id == successor.scalar_subquery(),
    )
    return list(connection.execute(select(payments).where(is_of_it)))


def _refund(connection: Connection, refund_id: str) -> tuple[Row[Any], PaymentKind, str | None, int]:
    """The refund as it is parked, who would give the money back, their id, and how much surely went back."""
    is_it = [refunds.c.refund_id == refund_id, refunds.c.state == "parked"]
    refund = connection.execute(select(refunds).where(*is_it)).one_or_none()
    if refund is None:
        raise NotParked
    is_done = [refunds.c.payment_key == refund.payment_key, refunds.c.done_at.is_not(None)]
    done = connection.execute(select(func.coalesce(func.sum(refunds.c.amount), 0)).where(*is_done)).scalar_one()
    payment = payment_of(connection, refund)
    reference = None if payment is None else payment.reference
    return refund, provider_of(connection, refund, payment), reference, int(done)


def _give_up_refund(connection: Connection, refund: Row[Any]) -> None:
    """If it is still as it was when the provider was asked about it."""
    order = None if refund.order_id is None else lock_order(connection, refund.order_id)
    if order is None or order.status == OrderStatus.CANCELLED:
        raise DropRefused("The buyer paid for nothing that stands, so the money must go back. Retry it.")
    is_it = [refunds.c.refund_id == refund.refund_id, refunds.c.state == "parked", refunds.c.fence == refund.fence]
    if not connection.execute(update(refunds).where(*is_it).values(state="dropped")).rowcount:
        raise NotParked
