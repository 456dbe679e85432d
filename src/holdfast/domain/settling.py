"""From a reservation that is to be paid for to its end: what comes next, decided from how things stand.

The model. Money and units move in steps, each of which is safe to repeat: note the attempt, authorise, claim the units
in the ledger, capture, write the order. After any of them a worker may die, or learn nothing; whoever comes next looks
at what is written and asks `next_step` how to go on. It reads no clock and does no I/O.

The invariants:
  - money is taken (captured) only after the ledger has claimed the units, and never twice for one reservation;
  - a result that is not known is looked up; only who was never heard of is asked again, under the same key;
  - units return only when it is sure that no money was taken;
  - money that was taken for units that are gone gets others, or is given back; it is never simply kept.
"""

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from holdfast.domain.reservation import Status

# Idempotency keys of our own begin with it. Callers' keys are printable, so no two can be the same.
NOBODYS_KEY = "\x01"


class PaymentMark(StrEnum):
    """How far the payment of a reservation is, as the ledger knows it."""

    NEW = "new"
    ATTEMPTED = "attempted"
    AUTHORISED = "authorised"
    CLAIMED = "claimed"
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"


class Ordered(StrEnum):
    """Whose order a reservation has."""

    NOT = "not"
    # Written by the settler, for the money it took.
    OURS = "ours"
    # Written because somebody else confirmed, who took the money themselves.
    THEIRS = "theirs"


class Step(StrEnum):
    # In the ledger, at once, in the transaction that finds it to be next.
    PAY = "pay"
    ATTEMPT = "attempt"
    CLAIM = "claim"
    ORDER = "order"
    FAIL = "fail"
    REFUND = "refund"
    PARK = "park"
    DONE = "done"
    # With the provider.
    AUTHORISE = "authorise"
    LOOK_UP = "look_up"
    CAPTURE = "capture"
    VOID = "void"
    # With the gate.
    REACQUIRE = "reacquire"
    TELL = "tell"
    # Not now.
    WAIT = "wait"


class Situation(Struct, frozen=True, kw_only=True):
    mark: PaymentMark | None = None
    # As the ledger has it; None if it never heard of the reservation.
    reservation: Status | None = Status.SETTLING
    ordered: Ordered = Ordered.NOT
    # Whether the mark was reached, or confirmed by the provider, by whoever asks now. Otherwise somebody may have died
    # between asking and writing the answer down.
    fresh: bool = False
    # Whether the ledger can let the units go without selling more than there are.
    has_room: bool = True
    # Paid in the ledger itself: from a wallet, or because nothing is to be paid.
    in_ledger: bool = False
    # The caller takes the money; there is nothing to settle.
    external: bool = False
    # The money is decided; only the gate has to hear of it, and the ledger of that.
    telling: bool = False
    # Whether the ledger has the reservation that took the place of this one.
    has_successor: bool = False
    # Whether another unit was asked for and refused.
    refused: bool = False
    attempts: int = 0
    attempts_max: int = 12


_NOTHING_ASKED = (None, PaymentMark.NEW)
_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
_ENDED = (Status.CONFIRMED, *_RETURNED)


def next_step(s: Situation) -> Step:
    if s.telling:
        # What the gate has said it may still lose; what the ledger has read of it stays.
        return Step.DONE if s.reservation in _ENDED else Step.TELL
    if s.attempts >= s.attempts_max or s.reservation is None or s.reservation is Status.ACTIVE:
        return Step.PARK
    if s.external and s.mark in _NOTHING_ASKED:
        return Step.DONE
    return _of_payment(s, is_settling=s.reservation is Status.SETTLING)


def _of_payment(s: Situation, *, is_settling: bool) -> Step:
    match s.mark:
        case None | PaymentMark.NEW:
            return _first(s) if is_settling else Step.DONE
        case PaymentMark.ATTEMPTED:
            return Step.AUTHORISE if s.fresh and is_settling else Step.LOOK_UP
        case PaymentMark.AUTHORISED:
            return Step.CLAIM if is_settling and s.has_room else Step.VOID
        case PaymentMark.CLAIMED if not s.fresh:
            return Step.LOOK_UP
        case PaymentMark.CLAIMED:
            return Step.CAPTURE if is_settling else Step.VOID
        case PaymentMark.CAPTURED:
            return _after_capture(s)
        case PaymentMark.DECLINED | PaymentMark.VOIDED:
            return Step.FAIL if is_settling else Step.DONE


def _first(s: Situation) -> Step:
    if not s.in_ledger:
        return Step.ATTEMPT
    return Step.PAY if s.has_room else Step.WAIT


def _after_capture(s: Situation) -> Step:
    """The money is here. It belongs to an order, or goes back."""
    if s.ordered is Ordered.OURS or s.has_successor:
        return Step.DONE
    if s.reservation is Status.SETTLING:
        return Step.ORDER if s.has_room else Step.WAIT
    if s.reservation in _RETURNED and not s.refused:
        return Step.REACQUIRE
    return Step.REFUND


def reacquired_id(reservation_id: str) -> str:
    """The reservation that takes the place of one that ended before its money came: always the same one.

    It keeps the time, and the owner's mark by which a split pool finds its shard.
    """
    made_at, mark_and_sku = reservation_id[4:16], reservation_id[34:]
    return f"rsv_{made_at}{sha256(reservation_id.encode()).hexdigest()[:18]}{mark_and_sku}"


def refund_id_of(payment_key: str, cause: str) -> str:
    """Of a refund that we owe by ourselves: one for each payment and cause."""
    return f"rfd_{sha256(f'{payment_key}/{cause}'.encode()).hexdigest()[:32]}"
