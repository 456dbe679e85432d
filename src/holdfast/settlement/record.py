"""One settlement as the ledger stores it, and the case (`domain/sale/settling.py`) that it represents."""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Row

from holdfast.domain.sale.quote import QuotedPrice
from holdfast.domain.sale.sale import AfterAttempts, PaymentKind, Sale, payment_key_of, reacquired_id
from holdfast.domain.sale.settling import advance
from holdfast.domain.sale.settling_case import Case, Effect, Event, Funding, OrderSource, PaymentStatus, Work
from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.ledger.money.settle_batch import Account, Lease
from holdfast.runtime.tracing.context import TraceContext
from holdfast.settlement.retry import deferred

# The journal of a gate in Redis reaches the ledger well within this.
CHECK_AGAIN_MS = 1_000
# Units may be waiting to return, so a gate that is back is notified within this.
NOTIFY_AGAIN_MS = 10_000
# The minimum time a buyer has to authenticate with the bank; a hold may end sooner. Banks give five to ten minutes.
ANSWER_WITHIN_MS = 300_000
# Usually the webhook or the buyer's return comes first. This check finds what they missed, at one provider call.
ANSWER_LOOK_MS = 30_000

_COUNTED_AS = {
    Effect.SELL: "confirmed",
    Effect.RETURN_UNITS: "failed",
    Effect.REOPEN: "declined",
    Effect.OWE_REFUND: "refunded",
}
_UNDECIDED = (PaymentStatus.ATTEMPTED, PaymentStatus.AUTHORISED, PaymentStatus.CLAIMED)
_DECIDED = (PaymentStatus.CAPTURED, PaymentStatus.DECLINED, PaymentStatus.VOIDED)
_PAUSES = (Effect.RETRY_LATER, Effect.CHECK_SOON, Effect.AWAIT_BUYER)
_CLOSED_AS = {Work.PARKED: "parked", Work.DISCARDED: "dropped", Work.DONE: "ended"}


class Record:
    def __init__(
        self,
        work: Row[Any],
        reservation: Reservation | None,
        payments: Sequence[Row[Any]],
        order: str | None,
        sale: Sale | None,
        price: QuotedPrice | None = None,
        *,
        returned: Collection[str],
        has_replacement: bool,
        is_claimed: bool,
        attempts_max: int,
    ) -> None:
        self.work: dict[str, Any] = dict(work._mapping)  # noqa: SLF001 - the documented way to all columns of a row
        self.reservation = reservation
        spendable = [row for row in payments if row.state == PaymentStatus.CAPTURED and row.payment_key not in returned]
        payment = _current(payments, spendable, reservation)
        self.payment: dict[str, Any] | None = None if payment is None else dict(payment._mapping)  # noqa: SLF001
        self._last_payment = max(payments, key=lambda row: row.attempt, default=None)
        self.sale = sale
        self._price = price
        self.is_work_changed = self.is_payment_changed = False
        self.effects: list[Effect] = []
        self.outcome: str | None = None
        # If it is traced: its trace, and when it was loaded (nanoseconds since 1970).
        self.trace: TraceContext | None = None
        self.loaded_ns = 0
        status = None if reservation is None else reservation.status
        self.case = Case(
            work=Work(work.state),
            ending=None if work.ending is None else Transition(work.ending),
            attempts=work.attempts,
            reason=work.reason,
            is_reacquiring=work.successor_id is not None,
            payment=None if payment is None else PaymentStatus(payment.state),
            payment_reason=None if payment is None else payment.reason,
            reference=None if payment is None else payment.reference,
            funding=_funding(sale, self._amount),
            amount=self._amount,
            # The ledger has sold it, but the journal does not say so yet.
            reservation=Status.CONFIRMED if is_claimed and work.state == Work.WAITING else status,
            order=_order_source(order, sale),
            has_replacement=has_replacement,
            attempts_max=attempts_max,
            payment_attempt=1 if reservation is None else reservation.attempts,
            payment_attempts_max=1 if sale is None else sale.payment_attempts_max,
            parks_after_attempts=sale is not None and sale.after_attempts is AfterAttempts.PARK,
            is_earlier_payment=payment is not None
            and reservation is not None
            and payment.attempt < reservation.attempts,
            is_paid_otherwise=_is_paid_otherwise(payment, spendable),
        )

    @property
    def reservation_id(self) -> str:
        id_: str = self.work["reservation_id"]
        return id_

    @property
    def lease(self) -> Lease:
        return Lease(self.reservation_id, self.work["sku_id"], self.work["fence"])

    @property
    def has_ended(self) -> bool:
        """Whether something final was written: a decided payment, or closed work."""
        is_decided = self.is_payment_changed and self.case.payment in _DECIDED
        return is_decided or (self.is_work_changed and not self.case.is_open)

    @property
    def is_declined(self) -> bool:
        return self.is_payment_changed and self.case.payment is PaymentStatus.DECLINED

    def owns(self, payment_key: object) -> bool:
        return self.payment is not None and self.payment["payment_key"] == payment_key

    @property
    def account(self) -> Account:
        assert self.sale is not None
        return self.work["buyer_id"], self.sale.currency if self._price is None else self._price.currency

    @property
    def _amount(self) -> int:
        """The price of the sale, or the one that was quoted."""
        if self._price is not None:
            return self._price.amount
        return 0 if self.sale is None else self.sale.amount_of(self.work["quantity"])

    @property
    def needs_balance(self) -> bool:
        is_wallet = self.sale is not None and self.sale.payment is PaymentKind.WALLET
        return is_wallet and self.case.payment in (None, PaymentStatus.NEW)

    @property
    def pending(self) -> Effect | None:
        """The next call to the provider or the gate, if it does not have to wait."""
        is_paused = not self.effects or self.effects[-1] in _PAUSES
        return None if is_paused or not self.case.is_open else self.effects[-1]

    @property
    def has_claimed(self) -> bool:
        """Whether its units are, or will be, the buyer's, so that the money may be taken."""
        return self.case.payment in (PaymentStatus.CLAIMED, PaymentStatus.CAPTURED)

    @property
    def answer_until(self) -> int:
        """Until when the bank's authentication may be pending: the payment was last changed when the bank requested
        it."""
        asked_at = 0 if self.payment is None else int(self.payment["updated_at"])
        return max(0 if self.reservation is None else self.reservation.expires_at, asked_at + ANSWER_WITHIN_MS)

    def advance(self, event: Event, now: int, **facts: bool) -> None:
        """`facts` are the inputs that the case needs from the ledger: `has_units`, `has_funds`, and so on."""
        before = self.case
        self.case, self.effects = advance(replace(before, **facts), event)
        self.outcome = _outcome(before, self.case, self.effects)
        self._update_payment(before, now)
        self._update_work(now)

    def _update_payment(self, before: Case, now: int) -> None:
        case = self.case
        stored = ("payment", "payment_reason", "reference", "is_reacquiring")
        if all(getattr(case, name) == getattr(before, name) for name in stored):
            return
        row = self.payment or self._new_payment(now)
        assert case.payment is not None
        row |= {"state": case.payment.value, "reason": case.payment_reason, "reference": case.reference}
        row["updated_at"] = now
        if before.payment in (None, PaymentStatus.NEW):
            # A note has the requested amount. The charge is for the granted units.
            row |= {"amount": case.amount, "currency": self.account[1]}
        if case.is_reacquiring != before.is_reacquiring:
            row["reservation_id"] = self._replacement_id or self.reservation_id
        self.payment, self.is_payment_changed = row, True

    def _new_payment(self, now: int) -> dict[str, Any]:
        assert self.sale is not None
        last, attempt = self._last_payment, max(self.case.payment_attempt, 1)
        return {
            "payment_key": payment_key_of(self.reservation_id, attempt),
            "attempt": attempt,
            "reservation_id": self.reservation_id,
            "sale_id": self.sale.sale_id,
            "buyer_id": self.work["buyer_id"],
            "provider": self.sale.payment.value,
            # For buyers who never named a card; a declined card is named again (`checkout/holds.py`).
            "method": None if last is None else last.method,
            "customer": None if last is None else last.customer,
            "created_at": now,
        }

    def _update_work(self, now: int) -> None:
        case, last = self.case, self.effects[-1] if self.effects else None
        changes: dict[str, Any] = {
            "state": case.work.value,
            "ending": case.ending and case.ending.value,
            "successor_id": self._replacement_id,
            "attempts": case.attempts,
            "reason": case.reason,
        }
        if case.failure is not None:
            failure = case.failure
            changes |= deferred(self.work["history"], failure.effect.value, failure.error, case.attempts, now)
            if case.work is Work.NOTIFYING:
                changes["due_at"] = min(changes["due_at"], now + NOTIFY_AGAIN_MS)
        elif last in (Effect.CHECK_SOON, Effect.NOTIFY_GATE):
            # This worker notifies the gate now; others do so only if that failed.
            changes |= {"due_at": now + CHECK_AGAIN_MS, "leased_until": 0}
        elif last is Effect.AWAIT_BUYER:
            changes |= {"due_at": min(now + ANSWER_LOOK_MS, self.answer_until), "leased_until": 0}
        if not case.is_open:
            changes["leased_until"] = 0
        self.is_work_changed = any(self.work[name] != value for name, value in changes.items())
        self.work |= changes

    @property
    def _replacement_id(self) -> str | None:
        return reacquired_id(self.reservation_id) if self.case.is_reacquiring else None


def _current(
    payments: Sequence[Row[Any]], spendable: Sequence[Row[Any]], reservation: Reservation | None
) -> Row[Any] | None:
    """The payment to work on: one with an open outcome, one that was captured and is not being returned, or that of the
    latest attempt. None if the latest attempt has none yet."""
    if found := [row for row in payments if row.state in _UNDECIDED] or spendable:
        return found[0]
    latest = None if reservation is None else [row for row in payments if row.attempt == reservation.attempts]
    if latest:
        return latest[0]
    is_settling = reservation is not None and reservation.status is Status.SETTLING
    return None if is_settling else max(payments, key=lambda row: row.attempt, default=None)


def _is_paid_otherwise(payment: Row[Any] | None, spendable: Sequence[Row[Any]]) -> bool:
    """If there are two captures, what to do is decided when the second becomes known."""
    return payment is not None and payment.state != PaymentStatus.CAPTURED and bool(spendable)


def _funding(sale: Sale | None, amount: int) -> Funding | None:
    if sale is None:
        return None
    if sale.payment is PaymentKind.EXTERNAL:
        return Funding.EXTERNAL
    is_in_ledger = sale.payment is PaymentKind.WALLET or amount == 0
    return Funding.LEDGER if is_in_ledger else Funding.PROVIDER


def _order_source(order: str | None, sale: Sale | None) -> OrderSource | None:
    if order is None:
        return None
    is_ours = sale is not None and order == sale.payment and sale.payment is not PaymentKind.EXTERNAL
    return OrderSource.SETTLER if is_ours else OrderSource.EXTERNAL


def _outcome(before: Case, after: Case, effects: list[Effect]) -> str | None:
    """The metric to count it under, once."""
    ended = [_COUNTED_AS[effect] for effect in effects if effect in _COUNTED_AS]
    if ended:
        return ended[0]
    if before.work is not Work.WAITING or after.is_open:
        return None
    return "reacquired" if after.has_replacement and after.work is Work.DONE else _CLOSED_AS[after.work]
