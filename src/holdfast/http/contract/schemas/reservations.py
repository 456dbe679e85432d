"""Reservations in a sale."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.domain.sale.quote import QuotedPrice
from holdfast.domain.sale.sale import PaymentKind, Sale
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.http.contract.schemas.inventory import ReservationOut
from holdfast.http.contract.schemas.quotes import QuotedPriceOut
from holdfast.http.contract.schemas.values import PaymentMethod, Timestamp, UnavailableCells
from holdfast.ledger.money.payment_notes import Decline
from holdfast.runtime.times import rfc3339


class ConfirmIn(Struct, frozen=True, forbid_unknown_fields=True):
    payment_method: PaymentMethod | None = None


class DeclineOut(Struct, frozen=True, gc=False):
    code: Annotated[str | None, Meta(description="Why: insufficient_funds, card_declined, …")]
    at: Timestamp


class SaleReservationOut(ReservationOut, frozen=True, gc=False, kw_only=True):
    """A reservation in a sale."""

    sale_id: str
    amount: Annotated[int, Meta(description="The total price, in the currency's smallest unit.")]
    currency: str
    quote: Annotated[QuotedPriceOut, Meta(description="The quote it was made with, if there was one.")] | UnsetType = (
        UNSET
    )
    attempts_left: (
        Annotated[
            int,
            Meta(description="How often the buyer may still start a payment; omitted for external payment."),
        ]
        | UnsetType
    ) = UNSET
    last_decline: (
        Annotated[
            DeclineOut | None, Meta(description="The last declined payment, or null. Only in GET of one reservation.")
        ]
        | UnsetType
    ) = UNSET
    failure_reason: (
        Annotated[
            str, Meta(description="Why the payment was refused, if it failed: insufficient_funds, card_declined, …")
        ]
        | UnsetType
        | None
    ) = UNSET


def reservation_out(
    r: Reservation,
    sale: Sale | None,
    last_decline: Decline | UnsetType | None = UNSET,
    price: QuotedPrice | None = None,
) -> ReservationOut:
    """Of a sale, it shows which one, what it costs, and how its payments went if that was looked up."""
    shown = ReservationOut.of(r)
    if sale is None:
        return shown
    is_paid_here = sale.payment is not PaymentKind.EXTERNAL
    declined = None if not last_decline else DeclineOut(last_decline.reason, rfc3339(last_decline.at))
    return SaleReservationOut(
        *[getattr(shown, name) for name in ReservationOut.__struct_fields__],
        sale_id=sale.sale_id,
        amount=sale.amount_of(r.quantity) if price is None else price.amount,
        currency=sale.currency if price is None else price.currency,
        quote=UNSET if price is None else QuotedPriceOut.of(price),
        attempts_left=max(sale.payment_attempts_max - r.attempts, 0) if is_paid_here else UNSET,
        last_decline=declined if last_decline is not UNSET and is_paid_here else UNSET,
        failure_reason=_failure(r, last_decline),
    )


def _failure(r: Reservation, last_decline: Decline | UnsetType | None) -> str | UnsetType | None:
    if r.status is not Status.FAILED or last_decline is UNSET:
        return UNSET
    return last_decline.reason if isinstance(last_decline, Decline) else None


class ReservationPage(Struct, frozen=True, omit_defaults=True):
    data: list[ReservationOut]
    has_more: bool
    unavailable_cells: UnavailableCells = []
