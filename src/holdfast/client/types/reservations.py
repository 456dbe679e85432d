# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `reservations`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.client.types.inventory import Reservation, Status
from holdfast.client.types.room import QuotedPrice

if TYPE_CHECKING:
    PaymentPhase = Literal["action_required", "none", "processing"]
else:
    PaymentPhase = str


class ReservationPage(Struct, frozen=True, kw_only=True):
    data: list[Reservation]
    has_more: bool
    unavailable_cells: list[str] | None = None  # Cells that did not answer in time; the list lacks their items.


class Decline(Struct, frozen=True, kw_only=True):
    code: str | None = None  # Why: insufficient_funds, card_declined, …
    at: datetime


class SaleReservation(Struct, frozen=True, kw_only=True):
    """A reservation in a sale."""

    reservation_id: str
    sku_id: str
    owner_id: str
    quantity: int
    status: Status
    created_at: datetime
    expires_at: datetime
    confirmed_at: datetime | None = None
    sale_id: str
    amount: int  # The total price, in the currency's smallest unit.
    currency: str
    quote: QuotedPrice | None = None  # The quote it was made with, if there was one.
    attempts_left: int | None = None  # How often the buyer may still start a payment; omitted for external payment.
    last_decline: Decline | None = None  # The last declined payment, or null. Only in GET of one reservation.
    failure_reason: str | None = None  # Why the payment was refused, if it failed: insufficient_funds, card_declined, …


class Event(Struct, frozen=True, kw_only=True):
    type: str
    at: datetime
    quantity: int | None = None
    expires_at: datetime | None = None
    failure_reason: str | None = None  # Why the payment was refused: insufficient_funds, …


class History(Struct, frozen=True, kw_only=True):
    events: list[Event]
    trace_id: str | None = None  # The trace of its last traced request.


class PaymentStep(Struct, frozen=True, kw_only=True):
    """What the payment in progress needs next."""

    status: PaymentPhase  # `action_required`: the buyer must authenticate. `none`: no payment in progress.
    client_secret: str | None = None  # Stripe: for `stripe.handleNextAction` in the buyer's browser.
    url: str | None = None  # Sandbox: the page where the buyer answers the bank.
