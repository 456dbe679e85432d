"""Settlement as a pure state machine: from a reservation that must be paid for to its end.

The model. `advance(case, event)` takes what the ledger knows about a case and what has just happened, and returns the
case as it is now and the effects to run, in order. Ledger effects run in the transaction that stores the case. The last
effect is the one to continue with: a call to the provider or the gate, whose result is the next event, or a pause. If a
worker dies after any of them, the next one builds the case from the ledger and sends `Resumed`. There is no I/O and no
clock here.

The invariants, which tests/domain/test_settling.py checks in every reachable state:
  - money is captured only after the ledger has claimed the units, and at most once per reservation;
  - an unknown result is looked up; only a payment the provider has never seen is requested again, under the same key;
  - units return only when it is certain that no money was taken;
  - money taken for units that are gone pays for other units or is refunded.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Status

# The prefix of internal idempotency keys. Callers' keys are printable, so they cannot collide.
INTERNAL_KEY_PREFIX = "\x01"


class PaymentStatus(StrEnum):
    """The state of a reservation's payment, according to the ledger."""

    NEW = "new"
    ATTEMPTED = "attempted"
    AUTHORISED = "authorised"
    CLAIMED = "claimed"
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"


class OrderSource(StrEnum):
    """Who took the money for an order: the settler, or the caller that confirmed directly."""

    SETTLER = "settler"
    EXTERNAL = "external"


class Funding(StrEnum):
    # A wallet, or nothing to pay: settled in the ledger alone.
    LEDGER = "ledger"
    PROVIDER = "provider"
    # The caller takes the money; there is nothing to settle.
    EXTERNAL = "external"


class Work(StrEnum):
    WAITING = "waiting"
    # The ending is decided and the gate has to be notified.
    NOTIFYING = "notifying"
    DONE = "done"
    PARKED = "parked"
    DISCARDED = "dropped"


class Effect(StrEnum):
    # In the ledger, in the transaction that stores the case.
    DEBIT_WALLET = "debit_wallet"
    SELL = "sell"
    RETURN_UNITS = "return_units"
    OWE_REFUND = "owe_refund"
    # The event does not fit the case: log it.
    REPORT = "report"
    # With the provider.
    AUTHORISE = "authorise"
    LOOK_UP = "look_up"
    CAPTURE = "capture"
    VOID = "void"
    # With the gate.
    REACQUIRE = "reacquire"
    NOTIFY_GATE = "notify_gate"
    # Not now: with backoff, or as soon as the ledger can have read the gate's journal.
    RETRY_LATER = "retry_later"
    CHECK_SOON = "check_soon"


LEDGER_EFFECTS = frozenset({Effect.DEBIT_WALLET, Effect.SELL, Effect.RETURN_UNITS, Effect.OWE_REFUND, Effect.REPORT})


class Resumed(Struct, frozen=True):
    """A worker resumes the case from the ledger."""


ProviderStatus = Literal[PaymentStatus.AUTHORISED, PaymentStatus.CAPTURED, PaymentStatus.DECLINED, PaymentStatus.VOIDED]


class ProviderReplied(Struct, frozen=True):
    """The provider's state of the payment; `status` is None if the provider has never seen its key."""

    status: ProviderStatus | None
    amount: int = 0
    reference: str | None = None
    reason: str | None = None


class Reacquired(Struct, frozen=True):
    """The gate granted replacement units, or refused them."""

    refusal: str | None = None


class GateAcknowledged(Struct, frozen=True):
    """The gate knows the ending."""


class EffectFailed(Struct, frozen=True):
    """An effect failed, or its outcome is unknown. `is_final`: retrying is pointless."""

    effect: Effect
    error: str
    is_final: bool = False


class Discarded(Struct, frozen=True):
    """An operator discards the case after verifying that no money was taken.

    Where the sale is gone, nothing else can become of money that was taken (`is_captured`) than to go back.
    """

    is_captured: bool = False
    reference: str | None = None


Event = Resumed | ProviderReplied | Reacquired | GateAcknowledged | EffectFailed | Discarded


class Case(Struct, frozen=True, kw_only=True, gc=False):
    # Stored.
    work: Work = Work.WAITING
    ending: Transition | None = None
    attempts: int = 0
    reason: str | None = None
    # The money belongs to the replacement reservation.
    is_reacquiring: bool = False
    payment: PaymentStatus | None = None
    payment_reason: str | None = None
    reference: str | None = None
    # As the ledger has it. No funding: the sale is unknown. No reservation: the ledger has not seen it.
    funding: Funding | None = Funding.PROVIDER
    amount: int = 0
    reservation: Status | None = Status.SETTLING
    order: OrderSource | None = None
    has_replacement: bool = False
    # Whether the ledger can sell the units without selling more than there are.
    has_units: bool = True
    has_funds: bool = True
    # Whether the buyer would have more than the limit: a gate that lost data may have granted it.
    is_over_limit: bool = False
    # Whether the gate is outside the ledger and has to be notified of the ending.
    notifies_gate: bool = False
    attempts_max: int = 12
    # Known in this call of `advance` only: whether the payment status was reached or confirmed just now (otherwise a
    # worker may have died between asking the provider and storing the reply), and what went wrong.
    is_verified: bool = False
    is_refused: bool = False
    is_discarded: bool = False
    failure: EffectFailed | None = None

    @property
    def is_open(self) -> bool:
        return self.work in (Work.WAITING, Work.NOTIFYING)

    @property
    def refund_cause(self) -> str:
        if self.funding is None:
            return "sale_gone"
        return "sold_elsewhere" if self.reservation is Status.CONFIRMED else "paid_too_late"


Next = tuple[Case, Effect | None]

_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
_ENDED = (Status.CONFIRMED, *_RETURNED)
_MAYBE_REQUESTED = (PaymentStatus.ATTEMPTED, PaymentStatus.AUTHORISED, PaymentStatus.CLAIMED)
_DISCARD_REASON = "dropped by an operator"


def advance(case: Case, event: Event) -> tuple[Case, list[Effect]]:
    if not case.is_open:
        return case, [Effect.REPORT]
    case, effect = _apply(case, event)
    effects = [effect] if effect else []
    while case.is_open and (effect is None or effect in LEDGER_EFFECTS):
        case, effect = _step(case)
        effects += [effect] if effect else []
    return case, effects


# --- what an event changes


def _apply(case: Case, event: Event) -> Next:
    is_waiting = case.work is Work.WAITING
    match event:
        case Resumed():
            return case, None
        case EffectFailed():
            return _fail(case, event)
        case ProviderReplied() if is_waiting:
            return _apply_reply(case, event)
        case Reacquired(refusal=None) if is_waiting and case.is_reacquiring:
            # A gate can still lose what it granted, so wait until the ledger has the replacement.
            return case, Effect.CHECK_SOON
        case Reacquired(refusal=refusal) if is_waiting and case.is_reacquiring:
            return replace(case, is_refused=True, is_reacquiring=False, reason=refusal), None
        case GateAcknowledged() if not is_waiting:
            return _apply_acknowledgement(case)
        case Discarded() if is_waiting:
            return _discard_without_sale(case, event) if case.funding is None else (_discard(case), None)
        case _:
            return case, Effect.REPORT


def _apply_reply(case: Case, reply: ProviderReplied) -> Next:
    case = replace(case, is_verified=True)
    match reply.status:
        case None if case.payment in _MAYBE_REQUESTED:
            case = _pay(case, PaymentStatus.NEW)
        case PaymentStatus.CAPTURED:
            case = _pay(case, PaymentStatus.CAPTURED, reference=reply.reference)
        case PaymentStatus.AUTHORISED if case.payment not in (PaymentStatus.CLAIMED, PaymentStatus.CAPTURED):
            case = _pay(case, PaymentStatus.AUTHORISED, reference=reply.reference)
        case PaymentStatus.DECLINED | PaymentStatus.VOIDED if case.payment is not PaymentStatus.CAPTURED:
            case = _pay(case, reply.status, reply.reason, reply.reference)
    has_money = reply.status in (PaymentStatus.AUTHORISED, PaymentStatus.CAPTURED)
    if has_money and reply.amount not in (0, case.amount):
        error = f"the provider has {reply.amount}, the order is {case.amount}"
        return _fail(case, EffectFailed(Effect.LOOK_UP, error, is_final=True))
    return case, None


def _apply_acknowledgement(case: Case) -> Next:
    """A sale is claimed in the ledger. A return counts only once the ledger has read it from the journal."""
    if case.ending is Transition.FAIL and case.reservation is Status.SETTLING:
        return case, Effect.CHECK_SOON
    return replace(case, work=Work.DONE), None


def _discard(case: Case) -> Case:
    """Return the units, if any. If money was taken after all, continue as after a retry."""
    if case.payment is PaymentStatus.CAPTURED:
        return replace(case, attempts=0)
    case = replace(case, reason=_DISCARD_REASON)
    if case.reservation is None:
        return replace(case, work=Work.DISCARDED)
    return _pay(replace(case, attempts=0), PaymentStatus.VOIDED, _DISCARD_REASON)


def _discard_without_sale(case: Case, event: Discarded) -> Next:
    """Money that was taken goes back, unless it pays for something. `_step` returns the units, if any."""
    case = replace(case, attempts=0, reason=_DISCARD_REASON, is_discarded=True)
    if event.is_captured or case.payment is PaymentStatus.CAPTURED:
        case = _pay(case, PaymentStatus.CAPTURED, reference=event.reference)
        return case, None if case.order or case.has_replacement else Effect.OWE_REFUND
    return _pay(case, PaymentStatus.VOIDED, _DISCARD_REASON) if case.payment in _MAYBE_REQUESTED else case, None


def _fail(case: Case, failure: EffectFailed) -> Next:
    attempts = max(case.attempts + 1, case.attempts_max if failure.is_final else 0)
    case = replace(case, attempts=attempts, reason=failure.error, failure=failure)
    if case.work is Work.NOTIFYING:
        # Retry without limit: units may be waiting to return.
        return case, Effect.CHECK_SOON
    return (replace(case, work=Work.PARKED), None) if attempts >= case.attempts_max else (case, Effect.RETRY_LATER)


def _pay(case: Case, status: PaymentStatus, reason: str | None = None, reference: str | None = None) -> Case:
    return replace(case, payment=status, payment_reason=reason, reference=reference or case.reference)


# --- what comes next


def _step(case: Case) -> Next:
    if case.work is Work.NOTIFYING:
        # The gate may lose what it acknowledged; what the ledger has read stays.
        return (replace(case, work=Work.DONE), None) if case.reservation in _ENDED else (case, Effect.NOTIFY_GATE)
    if case.funding is None:
        return _close_without_sale(case) if case.is_discarded else _park(case, "the ledger has no such sale")
    if case.attempts >= case.attempts_max or case.reservation in (None, Status.ACTIVE):
        return _park(case, f"the reservation is {case.reservation or 'unknown'}")
    return _step_payment(case, is_settling=case.reservation is Status.SETTLING)


def _close_without_sale(case: Case) -> Next:
    if case.reservation is Status.SETTLING:
        return _end(case, Transition.FAIL, _DISCARD_REASON)
    return replace(case, work=Work.DISCARDED), None


def _step_payment(case: Case, *, is_settling: bool) -> Next:
    match case.payment:
        case None | PaymentStatus.NEW:
            return _start_payment(case, is_settling=is_settling)
        case PaymentStatus.ATTEMPTED:
            return case, Effect.AUTHORISE if case.is_verified and is_settling else Effect.LOOK_UP
        case PaymentStatus.AUTHORISED if is_settling and case.has_units and not case.is_over_limit:
            return replace(_pay(case, PaymentStatus.CLAIMED), is_verified=True), None
        case PaymentStatus.AUTHORISED:
            return case, Effect.VOID
        case PaymentStatus.CLAIMED if not case.is_verified:
            return case, Effect.LOOK_UP
        case PaymentStatus.CLAIMED:
            return case, Effect.CAPTURE if is_settling else Effect.VOID
        case PaymentStatus.CAPTURED:
            return _step_captured(case)
        case PaymentStatus.DECLINED | PaymentStatus.VOIDED:
            reason = case.payment_reason or case.payment.value
            return _end(case, Transition.FAIL, reason) if is_settling else _finish(case)


def _start_payment(case: Case, *, is_settling: bool) -> Next:
    if not is_settling or case.funding is Funding.EXTERNAL:
        return _finish(case)
    if case.is_over_limit:
        return _pay(case, PaymentStatus.DECLINED, "buyer_limit"), None
    if case.funding is Funding.PROVIDER:
        return replace(_pay(case, PaymentStatus.ATTEMPTED), is_verified=True), None
    if not case.has_units:
        return _fail(case, EffectFailed(Effect.DEBIT_WALLET, "the ledger has no units for it yet"))
    if not case.has_funds:
        return _pay(case, PaymentStatus.DECLINED, "insufficient_funds"), None
    return _pay(case, PaymentStatus.CAPTURED), Effect.DEBIT_WALLET if case.amount else None


def _step_captured(case: Case) -> Next:
    """The money was taken: it pays for an order, or goes back."""
    if case.has_replacement:
        return _finish(replace(case, reason="paid too late; a replacement reservation has the money"))
    if case.order is OrderSource.SETTLER:
        return _finish(case)
    if case.reservation is Status.SETTLING:
        if not case.has_units:
            return _fail(case, EffectFailed(Effect.SELL, "the ledger has no units for it yet"))
        return _end(case, Transition.CONFIRM, None)
    if case.reservation in _RETURNED and not case.is_refused:
        # The money moves first, so that the replacement's settlement finds it and does not charge again.
        return replace(case, is_reacquiring=True), Effect.REACQUIRE
    return replace(case, work=Work.DONE, reason=case.reason or case.refund_cause), Effect.OWE_REFUND


def _end(case: Case, ending: Transition, reason: str | None) -> Next:
    sells, notifies = ending is Transition.CONFIRM, case.notifies_gate
    ended = Status.CONFIRMED if sells else Status.FAILED
    case = replace(
        case,
        ending=ending,
        reason=reason,
        work=Work.NOTIFYING if notifies else Work.DONE,
        order=OrderSource.SETTLER if sells else case.order,
        reservation=case.reservation if notifies else ended,
    )
    return case, Effect.SELL if sells else Effect.RETURN_UNITS


def _finish(case: Case) -> Next:
    return replace(case, work=Work.DONE), None


def _park(case: Case, reason: str) -> Next:
    return replace(case, work=Work.PARKED, reason=case.reason or reason), None


# --- ids


def reacquired_id(reservation_id: str) -> str:
    """The replacement of a reservation that ended before its payment arrived. The ID is deterministic.

    It keeps the time, and the owner's mark by which a split pool finds the shard.
    """
    made_at, mark_and_sku = reservation_id[4:16], reservation_id[34:]
    return f"rsv_{made_at}{sha256(reservation_id.encode()).hexdigest()[:18]}{mark_and_sku}"


def refund_id_of(payment_key: str, cause: str) -> str:
    """The ID of a refund that nobody requested: one per payment and cause."""
    return f"rfd_{sha256(f'{payment_key}/{cause}'.encode()).hexdigest()[:32]}"
