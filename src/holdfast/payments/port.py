"""What settlement asks of a payment provider.

Every call names the key of its payment or refund, and the provider does the same thing once per key, however often it
is asked. A refusal is an answer (`DECLINED`, with its reason). If no answer came, nobody knows what happened: then
`OutcomeUnknown` is raised, and `look_up` finds the truth by the same key. `Unavailable` says that the provider was
surely not reached, so nothing happened.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class PaymentState(StrEnum):
    AUTHORISED = "authorised"
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"
    # The provider has it and has not decided yet.
    PENDING = "pending"


class Charge(Struct, frozen=True):
    """Money to be set aside for one reservation. `method` is the provider's name for the card or account to use."""

    key: str
    amount: int
    currency: str
    buyer_id: str
    reservation_id: str
    sale_id: str
    method: str | None = None


class Payment(Struct, frozen=True):
    """A payment as the provider has it. `reference` is the provider's own id for it."""

    key: str
    state: PaymentState
    reference: str | None = None
    reason: str | None = None
    amount: int = 0
    refunded: int = 0


class Refund(Struct, frozen=True):
    key: str
    reference: str
    amount: int
    is_done: bool


class PaymentProvider(Protocol):
    async def authorise(self, charge: Charge) -> Payment:
        """Set the money aside: AUTHORISED, DECLINED or PENDING."""

    async def capture(self, payment: Payment) -> Payment:
        """Take the money that was set aside: CAPTURED, or DECLINED or VOIDED if that is too late."""

    async def void(self, payment: Payment) -> Payment:
        """Let go of money that was set aside: VOIDED. One that is captured already stays CAPTURED."""

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        """Give back part or all of a captured payment. More than is left: `RefundRefused`."""

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        """The payment under this key, or None if the provider has never heard of it.

        `reference` is the provider's own id for it, if that is known: some find nothing else without fail.
        """

    async def close(self) -> None:
        """Let go of connections."""


class RefundRefused(Exception):
    """The provider will not give this money back, and says why."""
