"""Work that needs an operator: everything that failed too often, with its history, to be retried or dropped.

A drop keeps the promise that no charge is without an order or a refund. A settlement is dropped only once it is certain
that no money was taken: the provider is asked, an authorisation is voided, and then the units return. If money was
taken, or the outcome is unknown, the drop is refused. Only if the sale no longer exists, as after the ledger went back,
is the money refunded. A refund is dropped only while its order stands, and once it is certain that the money was not
paid back: otherwise it could be requested and paid a second time. Dropping an order without payment accepts it as paid
externally. A journal entry was stored as far as possible, so after a review it can only be dropped, like a message that
no consumer can read.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy import Connection, Row, Table, func, or_, select, update

from holdfast.domain.sale.sale import OrderStatus, PaymentKind
from holdfast.domain.sale.settling_case import Discarded, PaymentStatus
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.dead_letters import PARKED_TABLES, is_parked
from holdfast.ledger.events.deliveries import drop_delivery, retry_delivery
from holdfast.ledger.money.refunds import PAID_IN_LEDGER, lock_order, payment_of, provider_of
from holdfast.ledger.money.settle_batch import Lease
from holdfast.ledger.money.unpaid_orders import accept, own_keys
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import sales
from holdfast.payments.port import Payment, PaymentProvider, PaymentState
from holdfast.settlement.retry import extended
from holdfast.settlement.settler import Settler

log = structlog.get_logger()

LIST_MAX = 100
KINDS = tuple(PARKED_TABLES)
# A retry would not change anything.
ONLY_DROPPED = ("journal", "message")
_MAYBE_TAKEN = (PaymentStatus.ATTEMPTED, PaymentStatus.AUTHORISED, PaymentStatus.CLAIMED)


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
    """Money was taken, or may have been. The message says what to do instead."""


class Parked:
    def __init__(self, database: Database, settler: Settler, providers: Mapping[str, PaymentProvider]) -> None:
        self._database = database
        self._settler = settler
        self._providers = providers

    async def items(
        self, *, kind: str | None = None, limit: int = LIST_MAX, starting_after: str | None = None
    ) -> tuple[list[ParkedItem], bool]:
        """By kind and ID. Returns one page, and whether there is more."""
        return await self._database.read(lambda c: _page(c, kind, limit, starting_after))

    async def retry_all(self, kind: str) -> int:
        """Retry all items of a kind that are parked now. Returns how many there were."""
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
        if kind in ONLY_DROPPED:
            raise NotParked

        def work(connection: Connection) -> int:
            now = self._database.now_ms(connection)
            values: dict[str, object] = {"state": "waiting", "attempts": 0, "due_at": now, "leased_until": 0}
            is_it = [table.c[column] == id_, table.c.state == "parked"]
            is_found = connection.execute(update(table).where(*is_it).values(**values)).rowcount
            if is_found and kind == "delivery":
                retry_delivery(connection, id_, now)
            return is_found

        if not await self._database.write(work):
            raise NotParked
        if kind == "settlement":
            self._settler.nudge()

    async def drop(self, parked_id: str, by: str) -> None:
        """`by` is the operator, for the record."""
        kind, _, _, id_ = _named(parked_id)
        if kind == "settlement":
            await self._drop_settlement(id_, by)
        elif kind == "refund":
            await self._drop_refund(id_)
        elif kind in ONLY_DROPPED:
            await self._drop_entry(kind, id_)
        elif not await self._database.write(lambda c: drop_delivery(c, id_, self._database.now_ms(c))):
            raise NotParked
        log.warning("parked_item_dropped", parked_id=parked_id)

    async def _drop_entry(self, kind: str, id_: str) -> None:
        table, column = PARKED_TABLES[kind]
        dropped = update(table).where(table.c[column] == id_, is_parked(table)).values(state="dropped")
        if not await self._database.write(lambda c: c.execute(dropped).rowcount):
            raise NotParked

    async def _drop_refund(self, refund_id: str) -> None:
        refund, kind, reference, done = await self._database.read(lambda c: _refund(c, refund_id))
        if kind not in PAID_IN_LEDGER and refund.amount:
            known = await self._look_up(kind, refund.payment_key, reference, "went back")
            if known is not None and known.refunded > done:
                raise DropRefused(f"{known.refunded} were refunded, and the ledger knows of {done}. Retry it.")
        await self._database.write(lambda c: _drop_refund_if_unchanged(c, refund))

    async def _drop_settlement(self, reservation_id: str, by: str) -> None:
        if await self._database.write(lambda c: accept(c, reservation_id, self._database.now_ms(c))):
            return
        discarded, has_sale = Discarded(), await self._database.read(lambda c: _has_sale(c, reservation_id))
        for payment in await self._database.read(lambda c: _payments(c, reservation_id)):
            taken = await self._void(payment)
            if taken is None:
                continue
            if has_sale or payment.reservation_id != reservation_id:
                raise DropRefused(f"The money was taken ({taken.state}). Retry it: it ends as an order or a refund.")
            if 0 < taken.refunded < taken.amount:
                raise DropRefused(f"{taken.refunded} of {taken.amount} were refunded. Refund the rest at the provider.")
            if not taken.refunded:
                discarded = Discarded(is_captured=True, reference=taken.reference)
        lease = await self._database.write(lambda c: self._take(c, reservation_id, by))
        await self._settler.interpreter.settle(lease, discarded)

    async def _void(self, payment: Any) -> Payment | None:
        """The payment, if its money was taken. A payment that is only authorised is voided."""
        if payment.state == PaymentStatus.CAPTURED:
            return Payment(payment.payment_key, PaymentState.CAPTURED, payment.reference, amount=payment.amount)
        if payment.state not in _MAYBE_TAKEN:
            return None
        kind = PaymentKind(payment.provider)
        known = await self._look_up(kind, payment.payment_key, payment.reference, "was taken")
        if known is not None and known.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            authorised = Payment(known.key, known.state, known.reference, amount=known.amount)
            try:
                known = await self._providers[kind].void(authorised)
            except EngineError as exc:
                raise DropRefused(f"It is unknown whether money was taken: {exc}") from exc
        is_taken = known is not None and known.state not in (PaymentState.VOIDED, PaymentState.DECLINED)
        return known if is_taken else None

    async def _look_up(self, kind: PaymentKind, payment_key: str, reference: str | None, what: str) -> Payment | None:
        provider = self._providers.get(kind)
        if provider is None:
            raise DropRefused(f"It is unknown whether money {what}: {kind} is not configured.")
        try:
            return await provider.look_up(payment_key, reference)
        except EngineError as exc:
            raise DropRefused(f"It is unknown whether money {what}: {exc}") from exc

    def _take(self, connection: Connection, reservation_id: str, by: str) -> Lease:
        """Lease it, so that no other worker writes to it."""
        now = self._database.now_ms(connection)
        is_it = [settlements.c.reservation_id == reservation_id, settlements.c.state == "parked"]
        history = connection.execute(select(settlements.c.history).where(*is_it)).scalar()
        values: dict[str, Any] = {"state": "waiting", "fence": settlements.c.fence + 1, "due_at": now}
        values |= {"leased_until": now + 30_000, "history": extended(history, "drop", f"dropped by {by}", now)}
        taken = update(settlements).where(*is_it).values(**values).returning(settlements.c.sku_id, settlements.c.fence)
        row = connection.execute(taken).one_or_none()
        if row is None:
            raise NotParked
        return Lease(reservation_id, row.sku_id, row.fence)


def _named(parked_id: str) -> tuple[str, Table, str, str]:
    kind, _, id_ = parked_id.partition(":")
    if kind not in PARKED_TABLES:
        raise NotParked
    return kind, *PARKED_TABLES[kind], id_


def _page(
    connection: Connection, kind: str | None, limit: int, starting_after: str | None
) -> tuple[list[ParkedItem], bool]:
    after_kind, _, after_id = (starting_after or "").partition(":")
    found: list[ParkedItem] = []
    for name in sorted(PARKED_TABLES):
        if kind in (None, name) and name >= after_kind and len(found) <= limit:
            found += _items(connection, name, limit + 1 - len(found), after_id if name == after_kind else "")
    return found[:limit], len(found) > limit


def _items(connection: Connection, kind: str, limit: int, after_id: str) -> list[ParkedItem]:
    table, column = PARKED_TABLES[kind]
    wanted = select(table).where(is_parked(table), table.c[column] > after_id)
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
        kind: connection.execute(select(func.count()).select_from(table).where(is_parked(table))).scalar_one()
        for kind, (table, _) in PARKED_TABLES.items()
    }


def _has_sale(connection: Connection, reservation_id: str) -> bool:
    sale_id = select(settlements.c.sale_id).where(settlements.c.reservation_id == reservation_id).scalar_subquery()
    return connection.execute(select(sales.c.sale_id).where(sales.c.sale_id == sale_id)).first() is not None


def _payments(connection: Connection, reservation_id: str) -> list[Any]:
    """All payments that may have its money: its own, one it took over, and its replacement's."""
    successor = select(settlements.c.successor_id).where(settlements.c.reservation_id == reservation_id)
    is_of_it = or_(
        payments.c.payment_key.in_(own_keys(connection, reservation_id)),
        payments.c.reservation_id == reservation_id,
        payments.c.reservation_id == successor.scalar_subquery(),
    )
    return list(connection.execute(select(payments).where(is_of_it)))


def _refund(connection: Connection, refund_id: str) -> tuple[Row[Any], PaymentKind, str | None, int]:
    """The parked refund, its provider and reference, and how much was certainly refunded."""
    is_it = [refunds.c.refund_id == refund_id, refunds.c.state == "parked"]
    refund = connection.execute(select(refunds).where(*is_it)).one_or_none()
    if refund is None:
        raise NotParked
    is_done = [refunds.c.payment_key == refund.payment_key, refunds.c.done_at.is_not(None)]
    done = connection.execute(select(func.coalesce(func.sum(refunds.c.amount), 0)).where(*is_done)).scalar_one()
    payment = payment_of(connection, refund)
    reference = None if payment is None else payment.reference
    return refund, provider_of(connection, refund, payment), reference, int(done)


def _drop_refund_if_unchanged(connection: Connection, refund: Row[Any]) -> None:
    """Only if it has not changed since the provider was asked."""
    order = None if refund.order_id is None else lock_order(connection, refund.order_id)
    if order is None or order.status == OrderStatus.CANCELLED:
        raise DropRefused("The buyer's order does not stand, so the money must go back. Retry it.")
    is_it = [refunds.c.refund_id == refund.refund_id, refunds.c.state == "parked", refunds.c.fence == refund.fence]
    if not connection.execute(update(refunds).where(*is_it).values(state="dropped")).rowcount:
        raise NotParked
