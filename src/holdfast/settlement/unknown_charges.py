"""Charges that a provider has and the ledger lacks, because it went back in time or they were made elsewhere.

Each becomes work for the settler, which looks the payment up under its key and finishes it: as an order if there are
units for it, else as a refund or a void. A charge that cannot be matched with a sale is parked for an operator. The key
of the purchase is restored too, so a buyer who retries finds the purchase and is not charged again.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, insert, select, update

from holdfast.domain.sale.sale import attempt_of
from holdfast.domain.sale.settling_case import PaymentStatus
from holdfast.domain.stock.command import Move, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status, sku_of
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import Acknowledged, Mark, first_lacking, parse_mark, read_incarnations
from holdfast.ledger.money.payment_mismatches import look_up_again, reopen
from holdfast.ledger.money.settle_batch import record_settlement
from holdfast.ledger.recovery.restore import restore
from holdfast.ledger.sales.quotes import prices_of
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.batch import batch_queries
from holdfast.ledger.stock.decide import decide_batch
from holdfast.ledger.stock.journal import find_reservations, pool_exists
from holdfast.ledger.tables.money import payments, settlements
from holdfast.payments.port import Charge, ListedPayment, PaymentProvider, PaymentState

_TAKEN = (PaymentState.AUTHORISED, PaymentState.CAPTURED, PaymentState.PENDING)
PARKED_REASON = "the ledger lacks the sale or the reservation that this charge was for"


class UnknownCharge(Struct, frozen=True):
    provider: str
    listed: ListedPayment

    @property
    def mark(self) -> Mark | None:
        return parse_mark(self.listed.charge.ledger_mark)

    @property
    def facts(self) -> dict[str, str | int]:
        """The facts that identify it at the provider for an operator."""
        charge, incarnation = self.listed.charge, "" if self.mark is None else self.mark.incarnation
        return {
            "provider": self.provider,
            "charge": charge.key,
            "amount": charge.amount,
            "currency": charge.currency,
            "incarnation": incarnation,
        }


class FoundCharges(Struct, frozen=True):
    """`of_others`: charges that seem to belong to another ledger at the same provider, and are left to it."""

    ours: list[UnknownCharge] = []
    of_others: list[UnknownCharge] = []


class UnknownCharges:
    def __init__(self, database: Database, providers: Mapping[str, PaymentProvider]) -> None:
        self._database = database
        self._providers = providers
        self._queries = batch_queries(database.dialect_name)

    async def find(self, since: int, incarnations: Collection[str] = (), *, is_by_sale: bool = True) -> FoundCharges:
        """Raises if a provider does not respond, because it may have charges that would otherwise be missed.

        A charge of an incarnation that is neither listed in the ledger nor given here belongs to another ledger, unless
        it is for a sale of this one: a backup may predate one of its own incarnations. Unless an operator reviews the
        findings, that is not sufficient evidence (`is_by_sale`), because two ledgers may have sales with the same name.
        """
        listed = await self._database.read(read_incarnations)
        own = {*incarnations, *(each.incarnation for each in listed)}
        found = FoundCharges([], [])
        async for name, page in self._pages(since):
            taken = [UnknownCharge(name, each) for each in page if _is_open(each)]
            known = await self._database.read(partial(_known, keys=[each.listed.charge.key for each in taken]))
            unknown = [each for each in taken if each.listed.charge.key not in known]
            ours = await self._database.read(partial(_ours, unknown=unknown, incarnations=own, is_by_sale=is_by_sale))
            found.ours.extend(ours)
            found.of_others.extend(each for each in unknown if each not in ours)
        return found

    async def lacking_mark(self, since: int) -> Mark | None:
        """A mark that a charge carries and the ledger lacks. It detects a ledger that went back and lost all other
        marks.

        An incarnation that the ledger does not list may belong to another ledger that shares the provider account.
        Showing that is left to `holdfast recover`, and the decision to an operator; a server starts anyway.
        """
        async for _, page in self._pages(since):
            marks = [mark for listed in page if (mark := parse_mark(listed.charge.ledger_mark)) is not None]
            if marks and (lacking := await self._database.read(partial(first_lacking, marks=marks))) is not None:
                return lacking
        return None

    async def _pages(self, since: int) -> AsyncIterator[tuple[str, list[ListedPayment]]]:
        for name, provider in self._providers.items():
            after: str | None = None
            while True:
                page = await provider.list_since(since, after)
                yield name, page.payments
                if (after := page.next) is None:
                    break

    async def adopt(self, unknown: UnknownCharge, *, restores: bool = True) -> str:
        """The result: `settling`, `returning` (no units are left for it), `parked`, or `known` by now. Without
        `restores`, a reservation that the ledger lacks is not recreated, because a gate outside the ledger would not
        know it."""
        return await self._database.write(lambda c: self._adopt(c, unknown, restores))

    def _adopt(self, connection: Connection, unknown: UnknownCharge, restores: bool) -> str:
        charge, now = unknown.listed.charge, self._database.now_ms(connection)
        if charge.key in _known(connection, [charge.key]):
            return "known"
        reservation = self._reservation(connection, unknown)
        if reservation is not None and not restores:
            id_ = reservation.reservation_id
            reservation = find_reservations(connection, reservation.sku_id, [id_]).get(id_)
        if reservation is None:
            _open_settlement(connection, charge, sku_of(charge.reservation_id) or "", 1, now, parked=True)
            result = "parked"
        else:
            result = self._hold(connection, charge, reservation)
            _open_settlement(connection, charge, reservation.sku_id, reservation.quantity, now)
        _note_payment(connection, unknown, now)
        return result

    @staticmethod
    def _reservation(connection: Connection, unknown: UnknownCharge) -> Reservation | None:
        """The reservation as it was charged."""
        charge, at = unknown.listed.charge, unknown.listed.created_at
        sale, sku_id = find_sale(connection, charge.sale_id), sku_of(charge.reservation_id)
        if sale is None or sku_id is None or sale.price_amount <= 0 or not pool_exists(connection, sku_id):
            return None
        price = prices_of(connection, [charge.reservation_id]).get(charge.reservation_id)
        money = (charge.amount, sale.currency) if price is None else (price.amount, price.currency)
        if money != (charge.amount, charge.currency):
            return None
        amount = charge.amount if price is None else price.base_amount
        quantity = amount // sale.price_amount
        if quantity < 1 or sale.amount_of(quantity) != amount:
            return None
        held, attempt = Status.SETTLING, attempt_of(charge.key)
        return Reservation(charge.reservation_id, sku_id, charge.buyer_id, quantity, held, at, at, attempt)

    def _hold(self, connection: Connection, charge: Charge, wanted: Reservation) -> str:
        sku_id, id_ = wanted.sku_id, wanted.reservation_id
        stored = find_reservations(connection, sku_id, [id_]).get(id_)
        if stored is not None:
            is_held = stored.status is Status.SETTLING
            if stored.status is Status.ACTIVE:
                move = Move(Transition.SETTLE, id_)
                # It may be overdue.
                [verdict] = decide_batch(connection, self._queries, self._database, sku_id, [move]).verdicts
                is_held = verdict.outcome is Outcome.MOVED
            return "settling" if is_held else "returning"
        for status, result in ((Status.SETTLING, "settling"), (Status.EXPIRED, "returning")):
            lost = Acknowledged(replace(wanted, status=status), charge.purchase_key, charge.purchase_fingerprint or "")
            if restore(connection, self._queries, self._database, sku_id, [lost]):
                return result
        raise AssertionError("an ended reservation needs no units")


def _is_open(listed: ListedPayment) -> bool:
    return listed.payment.state in _TAKEN and listed.payment.refunded < listed.payment.amount


def _ours(
    connection: Connection, unknown: Collection[UnknownCharge], incarnations: Collection[str], is_by_sale: bool
) -> list[UnknownCharge]:
    """A charge without a mark dates from before marks existed."""
    return [
        each
        for each in unknown
        if each.mark is None
        or each.mark.incarnation in incarnations
        or (is_by_sale and _has_sale_of(connection, each.listed.charge))
    ]


def _has_sale_of(connection: Connection, charge: Charge) -> bool:
    sale = find_sale(connection, charge.sale_id)
    facts = None if sale is None else (sale.sku_id, sale.currency)
    return facts == (sku_of(charge.reservation_id), charge.currency)


def _known(connection: Connection, keys: list[str]) -> set[str]:
    """A note of a method is not a charge."""
    query = select(payments.c.payment_key).where(payments.c.payment_key.in_(keys))
    return set(connection.execute(query.where(payments.c.state != PaymentStatus.NEW.value)).scalars())


def _open_settlement(
    connection: Connection, charge: Charge, sku_id: str, quantity: int, now: int, *, parked: bool = False
) -> None:
    of_it = select(settlements.c.reservation_id).where(settlements.c.reservation_id == charge.reservation_id)
    if connection.execute(of_it).first() is not None:
        # It may have ended: with an earlier payment that was declined, or without any.
        reopen(connection, charge.reservation_id, now)
        return
    work: dict[str, object] = {"reservation_id": charge.reservation_id, "sale_id": charge.sale_id, "sku_id": sku_id}
    work |= {"buyer_id": charge.buyer_id, "quantity": quantity, "due_at": now, "created_at": now}
    state = {"state": "parked", "reason": PARKED_REASON} if parked else {}
    connection.execute(insert(settlements).values(**work, **state))
    record_settlement(connection, charge.reservation_id, now)


def _note_payment(connection: Connection, unknown: UnknownCharge, now: int) -> None:
    charge = unknown.listed.charge
    money: dict[str, object] = {"amount": charge.amount, "currency": charge.currency, "provider": unknown.provider}
    money["reference"] = unknown.listed.payment.reference
    # A stored method has the requested amount; fewer units may have been reserved and charged.
    if connection.execute(update(payments).where(payments.c.payment_key == charge.key).values(money)).rowcount:
        look_up_again(connection, charge.key, now)
        return
    row = money | {"payment_key": charge.key, "reservation_id": charge.reservation_id, "sale_id": charge.sale_id}
    row |= {"attempt": attempt_of(charge.key), "buyer_id": charge.buyer_id, "state": PaymentStatus.ATTEMPTED.value}
    connection.execute(insert(payments).values(row | {"created_at": now, "updated_at": now}))
