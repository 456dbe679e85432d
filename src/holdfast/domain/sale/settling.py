"""Settlement as a pure state machine: from a reservation that must be paid for to its end.

The model. `advance(case, event)` takes what the ledger knows about a case and what has just happened, and returns the
case as it is now and the effects to run, in order. Ledger effects run in the transaction that stores the case. The last
effect is the one to continue with: a call to the provider or the gate, whose result is the next event, or a pause. If a
worker dies after any of them, the next one builds the case from the ledger and sends `Resumed`. There is no I/O and no
clock here.

The invariants, which tests/domain/test_settling.py checks in every reachable state:
  - money is captured only after the ledger has claimed the units, and at most once per reservation;
  - an unknown result is looked up; only a payment the provider has never seen is requested again, under the same key;
  - a declined payment leaves the units with the buyer until the deadline, and the next one has another key;
  - while the bank asks the buyer nothing is released; if nobody answers in time, the payment is voided first;
  - units return only when it is certain that no money was taken;
  - money taken for units that are gone pays for other units or is refunded.
"""

from msgspec.structs import replace

from holdfast.domain.sale.settling_case import (
    AUTHENTICATION_REQUIRED,
    LEDGER_EFFECTS,
    AuthenticationRequested,
    Case,
    Discarded,
    Effect,
    EffectFailed,
    Event,
    Funding,
    GateAcknowledged,
    OrderSource,
    PaymentStatus,
    ProviderReplied,
    Reacquired,
    Resumed,
    Work,
)
from holdfast.domain.stock.command import TRANSITIONS, Transition
from holdfast.domain.stock.reservation import Status

Next = tuple[Case, Effect | None]

_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
_ENDED = (Status.CONFIRMED, *_RETURNED)
_MAYBE_REQUESTED = (PaymentStatus.ATTEMPTED, PaymentStatus.AUTHORISED, PaymentStatus.CLAIMED)
_WITHOUT_MONEY = (PaymentStatus.NEW, PaymentStatus.DECLINED, PaymentStatus.VOIDED)
_DISCARD_REASON = "dropped by an operator"
_LIMIT_REASON = "buyer_limit"


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
        case AuthenticationRequested() if is_waiting and case.payment is PaymentStatus.ATTEMPTED:
            return _await_buyer(_pay(case, PaymentStatus.ATTEMPTED, AUTHENTICATION_REQUIRED, event.reference))
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


def _await_buyer(case: Case) -> Next:
    """An answer to the bank matters only while the reservation is being paid with this payment."""
    is_wanted = case.reservation is Status.SETTLING and not case.is_earlier_payment and not case.is_unanswered
    return case, Effect.AWAIT_BUYER if is_wanted else Effect.VOID


def _apply_reply(case: Case, reply: ProviderReplied) -> Next:
    case = replace(case, is_verified=True, is_looked_up=reply.is_looked_up)
    match reply.status:
        case None if case.payment in _MAYBE_REQUESTED:
            case = _pay(case, PaymentStatus.NEW)
        case PaymentStatus.CAPTURED:
            case = _pay(case, PaymentStatus.CAPTURED, reference=reply.reference)
        case PaymentStatus.AUTHORISED if case.payment not in (PaymentStatus.CLAIMED, PaymentStatus.CAPTURED):
            case = _pay(case, PaymentStatus.AUTHORISED, reference=reply.reference)
        case PaymentStatus.VOIDED if case.payment is PaymentStatus.DECLINED:
            pass  # No money was taken either way, and the decline says why.
        case PaymentStatus.VOIDED if _awaits_buyer(case):
            case = _pay(case, PaymentStatus.DECLINED, AUTHENTICATION_REQUIRED, reply.reference)
        case PaymentStatus.DECLINED | PaymentStatus.VOIDED if case.payment is not PaymentStatus.CAPTURED:
            case = _pay(case, reply.status, reply.reason, reply.reference)
    has_money = reply.status in (PaymentStatus.AUTHORISED, PaymentStatus.CAPTURED)
    if has_money and reply.amount not in (0, case.amount):
        error = f"the provider has {reply.amount}, the order is {case.amount}"
        return _fail(case, EffectFailed(Effect.LOOK_UP, error, is_final=True))
    return case, None


def _awaits_buyer(case: Case) -> bool:
    return case.payment is PaymentStatus.ATTEMPTED and case.payment_reason == AUTHENTICATION_REQUIRED


def _apply_acknowledgement(case: Case) -> Next:
    """A sale is claimed in the ledger. A return counts only once the ledger has read it from the journal."""
    if case.ending is not Transition.CONFIRM and case.reservation is Status.SETTLING:
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
        is_known = case.reservation in _ENDED or (
            case.ending is Transition.REOPEN and case.reservation is Status.ACTIVE
        )
        return (replace(case, work=Work.DONE), None) if is_known else (case, Effect.NOTIFY_GATE)
    if case.funding is None:
        return _close_without_sale(case) if case.is_discarded else _park(case, "the ledger has no such sale")
    is_not_settling = case.reservation is Status.ACTIVE and case.payment in (None, PaymentStatus.NEW)
    if case.attempts >= case.attempts_max or case.reservation is None or is_not_settling:
        return _park(case, f"the reservation is {case.reservation or 'unknown'}")
    if _is_earlier_without_money(case):
        # The next pass finds the payment of the attempt in progress.
        return case, Effect.CHECK_SOON
    return _step_payment(case, is_settling=case.reservation is Status.SETTLING)


def _is_earlier_without_money(case: Case) -> bool:
    """Whether this payment says nothing about the attempt in progress. An operator's discard ends that attempt too."""
    is_earlier = case.is_earlier_payment and case.reservation is Status.SETTLING
    return is_earlier and case.payment in _WITHOUT_MONEY and case.payment_reason != _DISCARD_REASON


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
        case PaymentStatus.DECLINED if is_settling and case.payment_reason != _LIMIT_REASON:
            return _step_declined(case)
        case PaymentStatus.DECLINED | PaymentStatus.VOIDED:
            reason = case.payment_reason or case.payment.value
            return _end(case, Transition.FAIL, reason) if is_settling else _finish(case)


def _step_declined(case: Case) -> Next:
    """The buyer may try again until the deadline. After the last attempt, the provider has to say again that no money
    was taken before anything else happens."""
    reason, is_last = case.payment_reason or "declined", case.payment_attempt >= case.payment_attempts_max
    if not is_last and not case.is_overdue:
        return _end(case, Transition.REOPEN, reason)
    if case.funding is Funding.PROVIDER and not case.is_looked_up:
        return case, Effect.LOOK_UP
    if is_last and case.parks_after_attempts:
        return _park(replace(case, reason=None), f"payment declined, attempt {case.payment_attempt}: {reason}")
    return _end(case, Transition.FAIL, reason)


def _start_payment(case: Case, *, is_settling: bool) -> Next:
    if not is_settling or case.funding is Funding.EXTERNAL:
        return _finish(case)
    if case.is_over_limit:
        return _pay(case, PaymentStatus.DECLINED, _LIMIT_REASON), None
    if case.funding is Funding.PROVIDER:
        return replace(_pay(case, PaymentStatus.ATTEMPTED), is_verified=True), None
    if not case.has_units:
        return _fail(case, EffectFailed(Effect.DEBIT_WALLET, "the ledger has no units for it yet"))
    if not case.has_funds:
        return _pay(case, PaymentStatus.DECLINED, "insufficient_funds"), None
    return _pay(case, PaymentStatus.CAPTURED), Effect.DEBIT_WALLET if case.amount else None


def _step_captured(case: Case) -> Next:
    """The money was taken: it pays for an order, or goes back."""
    if case.is_paid_otherwise:
        return replace(case, work=Work.DONE, reason=case.refund_cause), Effect.OWE_REFUND
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
    sells, notifies, (_, ended) = ending is Transition.CONFIRM, case.notifies_gate, TRANSITIONS[ending]
    case = replace(
        case,
        ending=ending,
        reason=reason,
        work=Work.NOTIFYING if notifies else Work.DONE,
        order=OrderSource.SETTLER if sells else case.order,
        reservation=case.reservation if notifies else ended,
    )
    return case, _EFFECTS[ending]


_EFFECTS = {
    Transition.CONFIRM: Effect.SELL,
    Transition.FAIL: Effect.RETURN_UNITS,
    Transition.REOPEN: Effect.REOPEN,
}


def _finish(case: Case) -> Next:
    return replace(case, work=Work.DONE), None


def _park(case: Case, reason: str) -> Next:
    return replace(case, work=Work.PARKED, reason=case.reason or reason), None
