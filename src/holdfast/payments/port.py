"""What settlement needs from a payment provider.

Every call carries the key of its payment or refund and is idempotent under it. A refusal is a response (`DECLINED`,
with its reason). If there is no response, the outcome is unknown: `OutcomeUnknown` is raised, and `look_up` finds the
state by the same key. `Unavailable` means that the provider was certainly not reached, so nothing happened.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class PaymentState(StrEnum):
    AUTHORISED = "authorised"
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"
    # The provider has received it and has not decided yet.
    PENDING = "pending"


class Charge(Struct, frozen=True, omit_defaults=True):
    """What to authorise for one reservation. `method` is the provider's name for the card or account to use, `customer`
    its name for the customer who saved it. `purchase_key` and `purchase_fingerprint` are the idempotency key of the
    purchase and the fingerprint of its request: a ledger that lost the purchase finds them at the provider. The same
    holds for `ledger_mark`, the state of the ledger at that time (`ledger/mark/`). All values are the same whenever the
    charge is sent again."""

    key: str
    amount: int
    currency: str
    buyer_id: str
    reservation_id: str
    sale_id: str
    method: str | None = None
    customer: str | None = None
    purchase_key: str | None = None
    purchase_fingerprint: str | None = None
    ledger_mark: str | None = None


class Payment(Struct, frozen=True):
    """The provider's view of a payment. `reference` is the provider's own ID for it."""

    key: str
    state: PaymentState
    reference: str | None = None
    reason: str | None = None
    amount: int = 0
    refunded: int = 0
    # PENDING because the bank asks the buyer (3-D Secure): `next_action` has the address.
    needs_buyer: bool = False


class NextAction(Struct, frozen=True):
    """What the buyer's browser does next: pass the secret to the provider's script, or go to the URL."""

    client_secret: str | None = None
    url: str | None = None


class Refund(Struct, frozen=True):
    key: str
    reference: str
    amount: int
    is_done: bool


class ListedPayment(Struct, frozen=True):
    """A payment with the details of its charge."""

    payment: Payment
    charge: Charge
    created_at: int


class PaymentPage(Struct, frozen=True):
    """`next` continues the list; None at its end."""

    payments: list[ListedPayment]
    next: str | None = None


class PaymentProvider(Protocol):
    async def authorise(self, charge: Charge) -> Payment:
        """AUTHORISED, DECLINED or PENDING."""

    async def capture(self, payment: Payment) -> Payment:
        """Take authorised money: CAPTURED, or DECLINED or VOIDED if it is too late."""

    async def void(self, payment: Payment) -> Payment:
        """Release an authorisation: VOIDED. A captured payment stays CAPTURED."""

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        """Refund part or all of a captured payment. Raises `RefundRefused` if that exceeds the remaining amount."""

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        """The payment under this key, or None if the provider has never seen it.

        `reference` is the provider's own ID, if known: some providers find a payment reliably only by that.
        """

    async def next_action(self, key: str, reference: str) -> NextAction | None:
        """What the buyer has to do for this payment now, if anything."""

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        """The payments begun since a moment, in milliseconds, in pages."""

    async def close(self) -> None:
        """Close connections."""


class RefundRefused(Exception):
    """The provider refuses the refund and says why."""
