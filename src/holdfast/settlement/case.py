"""One reservation on its way to an order: how it stands, and what a transaction makes of it."""

import random
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Row

from holdfast.domain.command import Transition
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.sale import PaymentKind, Sale, payment_key_of
from holdfast.domain.settling import Ordered, PaymentMark, Situation, Step, next_step, reacquired_id
from holdfast.payments.port import Payment, PaymentState

# The first look after a lost answer comes soon, since most are lost for a moment only.
FIRST_RETRY_MS = 200
LONGEST_RETRY_MS = 60_000
HISTORY_MAX = 20
# The journal of a gate in Redis reaches the ledger well within this.
LOOK_AGAIN_MS = 1_000


class Told(Struct, frozen=True):
    """What the provider says about the payment; None if it has never heard of it."""

    payment: Payment | None


class SetOut(Struct, frozen=True):
    """Another unit will be asked for: the money is to be found under the reservation that gets it."""


class Reacquired(Struct, frozen=True):
    """There was another unit (`refusal` is None), or there was not."""

    refusal: str | None = None


class Heard(Struct, frozen=True):
    """The gate knows how it ended."""


class Failed(Struct, frozen=True):
    """A step did not work out. It is tried again later, or parked."""

    step: Step
    error: str
    # Whether to park it now: trying again would be no use.
    is_final: bool = False


class Dropped(Struct, frozen=True):
    """An operator gives it up. No money is out."""


News = Told | SetOut | Reacquired | Heard | Failed | Dropped


class Case:
    def __init__(
        self,
        work: Row[Any],
        reservation: Reservation | None,
        payment: Row[Any] | None,
        order: str | None,
        sale: Sale | None,
        attempts_max: int,
    ) -> None:
        self.work: dict[str, Any] = dict(work._mapping)  # noqa: SLF001 - the documented way to all columns of a row
        self.reservation = reservation
        self.status = None if reservation is None or sale is None else reservation.status
        self.payment: dict[str, Any] | None = None if payment is None else dict(payment._mapping)  # noqa: SLF001
        self.ordered = _ordered(order, sale)
        self.sale = sale
        self.attempts_max = attempts_max
        self.fresh = self.refused = False
        self.has_successor = False
        self.has_room = True
        self.is_payment_changed = self.is_work_changed = False
        self.outcome: str | None = None

    @property
    def reservation_id(self) -> str:
        id_: str = self.work["reservation_id"]
        return id_

    @property
    def mark(self) -> PaymentMark | None:
        return None if self.payment is None else PaymentMark(self.payment["state"])

    @property
    def amount(self) -> int:
        assert self.sale is not None
        return self.sale.amount_of(self.work["quantity"])

    @property
    def kind(self) -> PaymentKind | None:
        return None if self.sale is None else self.sale.payment

    @property
    def account(self) -> tuple[str, str]:
        assert self.sale is not None
        return self.work["buyer_id"], self.sale.currency

    @property
    def ending(self) -> Transition | None:
        return None if self.work["ending"] is None else Transition(self.work["ending"])

    @property
    def is_open(self) -> bool:
        return self.work["state"] in ("waiting", "telling")

    def step(self) -> Step:
        free = self.sale is not None and self.amount == 0
        return next_step(
            Situation(
                mark=self.mark,
                reservation=self.status,
                ordered=self.ordered,
                fresh=self.fresh,
                has_room=self.has_room,
                in_ledger=free or self.kind is PaymentKind.WALLET,
                external=self.kind is PaymentKind.EXTERNAL,
                telling=self.work["state"] == "telling",
                refused=self.refused,
                has_successor=self.has_successor,
                attempts=self.work["attempts"],
                attempts_max=self.attempts_max,
            )
        )

    # --- the payment

    def set_mark(self, mark: PaymentMark, now: int, reason: str | None = None, reference: str | None = None) -> None:
        if self.payment is None:
            self.payment = self._new_payment(now)
        if self.mark is PaymentMark.NEW:
            # What was noted is what was asked for. What is paid is what was granted.
            self.payment |= {"amount": self.amount, "currency": self.account[1]}
        changes = {"state": mark.value, "reason": reason, "updated_at": now}
        self.payment |= changes | {"reference": reference or self.payment["reference"]}
        self.is_payment_changed = True

    def _new_payment(self, now: int) -> dict[str, Any]:
        assert self.sale is not None
        return {
            "payment_key": payment_key_of(self.reservation_id),
            "reservation_id": self.reservation_id,
            "sale_id": self.sale.sale_id,
            "buyer_id": self.work["buyer_id"],
            "provider": self.sale.payment.value,
            "method": None,
            "amount": self.amount,
            "currency": self.sale.currency,
            "reference": None,
            "state": PaymentMark.NEW.value,
            "created_at": now,
        }

    def _set_out(self, successor_id: str | None, now: int) -> None:
        """The money belongs to the successor from now on, or again to this one."""
        assert self.payment is not None
        self.payment |= {"reservation_id": successor_id or self.reservation_id, "updated_at": now}
        self.work["successor_id"] = successor_id
        self.is_payment_changed = self.is_work_changed = True

    # --- the work

    def close(self, state: str, outcome: str | None, reason: str | None = None) -> None:
        self.work |= {"state": state, "reason": reason, "leased_until": 0}
        self.is_work_changed, self.outcome = True, outcome

    def end_with(self, ending: Transition, *, told: bool, outcome: str, reason: str | None = None) -> None:
        """It is decided how the reservation ends. Unless the gate has been told, that is what is left to do."""
        self.work["ending"] = ending.value
        self.close("done" if told else "telling", outcome, reason)

    # --- news

    def absorb(self, news: News, now: int) -> None:
        match news:
            case Told(payment=payment):
                self._absorb_told(payment, now)
            case SetOut():
                self._set_out(reacquired_id(self.reservation_id), now)
            case Reacquired(refusal=None):
                # A gate may still lose what it granted. The ledger has the last word, so that is waited for.
                self._look_again(now)
            case Reacquired(refusal=refusal):
                self.refused = True
                self._set_out(None, now)
                self.work["reason"] = refusal
            case Heard():
                self._absorb_heard(now)
            case Failed():
                self._put_off(news, now)
            case Dropped():
                self._drop(now)

    def _absorb_heard(self, now: int) -> None:
        """A sale is claimed in the ledger. Units that return are only believed once the ledger has read of it."""
        if self.ending is Transition.FAIL and self.status is Status.SETTLING:
            self._look_again(now)
        else:
            self.close("done", "told", self.work["reason"])

    def _look_again(self, now: int) -> None:
        self.work |= {"due_at": now + LOOK_AGAIN_MS, "leased_until": 0}
        self.is_work_changed = True

    def _drop(self, now: int) -> None:
        """Its units return, if it has any. If money was taken after all, it goes on as if it were tried again."""
        if self.mark is PaymentMark.CAPTURED:
            self.work["attempts"] = 0
            return
        if self.status is None:
            self.close("dropped", "dropped", "dropped by an operator")
            return
        self.work |= {"attempts": 0, "reason": "dropped by an operator"}
        self.set_mark(PaymentMark.VOIDED, now, "dropped by an operator")

    def _absorb_told(self, told: Payment | None, now: int) -> None:
        self.fresh = True
        if told is None:
            if self.mark in (PaymentMark.ATTEMPTED, PaymentMark.AUTHORISED, PaymentMark.CLAIMED):
                self.set_mark(PaymentMark.NEW, now)
            return
        is_settled = self.mark in (PaymentMark.CLAIMED, PaymentMark.CAPTURED)
        match told.state:
            case PaymentState.CAPTURED:
                self.set_mark(PaymentMark.CAPTURED, now, reference=told.reference)
            case PaymentState.AUTHORISED if not is_settled:
                self.set_mark(PaymentMark.AUTHORISED, now, reference=told.reference)
            case PaymentState.DECLINED | PaymentState.VOIDED if self.mark is not PaymentMark.CAPTURED:
                self.set_mark(PaymentMark(told.state.value), now, told.reason, told.reference)
        if told.state in (PaymentState.AUTHORISED, PaymentState.CAPTURED) and told.amount not in (0, self.amount):
            error = f"the provider has {told.amount}, the order is {self.amount}"
            self._put_off(Failed(Step.LOOK_UP, error, is_final=True), now)

    def _put_off(self, failed: Failed, now: int) -> None:
        attempts: int = self.work["attempts"] + 1
        wait = min(FIRST_RETRY_MS << min(attempts - 1, 20), LONGEST_RETRY_MS) * random.uniform(0.5, 1.5)
        history = msgspec.json.decode(self.work["history"] or "[]")
        history.append({"at": now, "step": failed.step.value, "error": failed.error[:500]})
        self.work |= {
            "attempts": max(attempts, self.attempts_max) if failed.is_final else attempts,
            "due_at": now + int(wait),
            "leased_until": 0,
            "reason": failed.error[:500],
            "history": msgspec.json.encode(history[-HISTORY_MAX:]).decode(),
        }
        self.is_work_changed = True


def _ordered(order: str | None, sale: Sale | None) -> Ordered:
    if order is None:
        return Ordered.NOT
    is_ours = sale is not None and order == sale.payment and sale.payment is not PaymentKind.EXTERNAL
    return Ordered.OURS if is_ours else Ordered.THEIRS
