"""What settlement is about: the case, the events that happen to it, and the effects they have (`settling.py`)."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Status

# The prefix of internal idempotency keys. Callers' keys are printable, so they cannot collide.
INTERNAL_KEY_PREFIX = "\x01"
# Why a payment is not decided: the bank asks the buyer (3-D Secure). If nobody answers, why it was declined.
AUTHENTICATION_REQUIRED = "authentication_required"


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
    # The payment was declined: the reservation is active again, until its deadline.
    REOPEN = "reopen"
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
    # The bank asks the buyer. A webhook, the buyer's return or the next look-up tells how it went.
    AWAIT_BUYER = "await_buyer"


LEDGER_EFFECTS = frozenset(
    {Effect.DEBIT_WALLET, Effect.SELL, Effect.RETURN_UNITS, Effect.REOPEN, Effect.OWE_REFUND, Effect.REPORT}
)


class Resumed(Struct, frozen=True):
    """A worker resumes the case from the ledger."""


ProviderStatus = Literal[PaymentStatus.AUTHORISED, PaymentStatus.CAPTURED, PaymentStatus.DECLINED, PaymentStatus.VOIDED]


class ProviderReplied(Struct, frozen=True):
    """The provider's state of the payment; `status` is None if the provider has never seen its key."""

    status: ProviderStatus | None
    amount: int = 0
    reference: str | None = None
    reason: str | None = None
    is_looked_up: bool = False


class AuthenticationRequested(Struct, frozen=True):
    """The provider has the payment, and the bank asks the buyer to authenticate."""

    reference: str | None = None


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


Event = Resumed | ProviderReplied | AuthenticationRequested | Reacquired | GateAcknowledged | EffectFailed | Discarded


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
    # Which payment for the reservation is in progress, how many there may be, and what follows the last. The payment
    # here may be an earlier one, about which the provider has said something else meanwhile.
    payment_attempt: int = 1
    payment_attempts_max: int = 3
    parks_after_attempts: bool = False
    is_earlier_payment: bool = False
    # Another payment of the reservation was captured.
    is_paid_otherwise: bool = False
    # Whether the deadline has passed. It has no effect while money may be moving.
    is_overdue: bool = False
    # Whether the buyer has had enough time to answer the bank.
    is_unanswered: bool = False
    # Known in this call of `advance` only: whether the payment status was reached or confirmed just now (otherwise a
    # worker may have died between asking the provider and storing the reply), and what went wrong.
    is_verified: bool = False
    is_looked_up: bool = False
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
        if self.is_paid_otherwise:
            return "paid_twice"
        return "sold_elsewhere" if self.reservation is Status.CONFIRMED else "paid_too_late"
