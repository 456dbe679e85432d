"""One payment in the sandbox's records."""

from msgspec import Struct

from holdfast.payments.port import Charge, Payment, PaymentState


class Event(Struct, frozen=True):
    at_ms: int
    what: str
    amount: int


class RefundEntry(Struct, frozen=True):
    key: str
    reference: str
    amount: int


class Entry(Struct, frozen=True):
    """`captures` counts captures that moved money, so that an auditor notices a second one."""

    key: str
    number: int
    reference: str
    charge: Charge
    state: PaymentState
    amount: int
    reason: str | None = None
    captured: int = 0
    captures: int = 0
    refunded: int = 0
    refunds: tuple[RefundEntry, ...] = ()
    pending_until_ms: int = 0
    history: tuple[Event, ...] = ()
    asks_bank: bool = False

    @property
    def created_at(self) -> int:
        return self.history[0].at_ms

    def payment(self) -> Payment:
        needs_buyer = self.asks_bank and self.state is PaymentState.PENDING
        return Payment(self.key, self.state, self.reference, self.reason, self.amount, self.refunded, needs_buyer)
