# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `reservations`."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.stream import StreamEvent
from holdfast.client.types.inventory import Reservation
from holdfast.client.types.reservations import History, PaymentStep, ReservationPage, SaleReservation


def list_reservations(
    *,
    sku_id: str | None = None,
    owner_id: str | None = None,
    status: Literal["active", "cancelled", "confirmed", "expired", "failed", "settling"] | None = None,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[ReservationPage]:
    """List reservations, newest first.

    A buyer lists their own: in sales, and in pools that limit units per owner. In Redis mode, a buyer's list
    without `sku_id` may be a moment behind.
    """
    return Call(
        method="GET",
        path="/v1/reservations",
        answers={200: (ReservationPage,)},
        query={
            "sku_id": optional(sku_id),
            "owner_id": optional(owner_id),
            "status": optional(status),
            "limit": limit,
            "starting_after": optional(starting_after),
        },
    )


def get_reservation(
    reservation_id: str, *, wait: int | None = None, receipt: str | None = None
) -> Call[SaleReservation | Reservation]:
    """One reservation.

    With `wait`, responds when its state changes, or after that many seconds: a long poll for clients that cannot
    use the events.
    """
    return Call(
        method="GET",
        path=path_of("/v1/reservations/{reservation_id}", reservation_id),
        answers={200: (SaleReservation, Reservation)},
        query={"wait": optional(wait)},
        headers={"Holdfast-Receipt": receipt},
    )


def get_history(reservation_id: str, *, receipt: str | None = None) -> Call[History]:
    """The history of a reservation."""
    return Call(
        method="GET",
        path=path_of("/v1/reservations/{reservation_id}/history", reservation_id),
        answers={200: (History,)},
        headers={"Holdfast-Receipt": receipt},
    )


def confirm(
    reservation_id: str, *, payment_method: str | None = None, receipt: str | None = None
) -> Call[SaleReservation | Reservation]:
    """Mark the units as sold; for a buyer: start to pay.

    A service key confirms what was paid elsewhere: in an `external` sale, or without a sale. A buyer starts the
    payment: 202, and events follow. After a decline the buyer names the payment method again.
    """
    return Call(
        method="POST",
        path=path_of("/v1/reservations/{reservation_id}/confirm", reservation_id),
        answers={200: (SaleReservation, Reservation), 202: (SaleReservation,)},
        headers={"Holdfast-Receipt": receipt},
        body={"payment_method": optional(payment_method)},
    )


def get_payment(reservation_id: str, *, receipt: str | None = None) -> Call[PaymentStep]:
    """What its payment needs next.

    While the reservation is `settling`, the bank may ask the buyer (3-D Secure). What the browser needs for that
    comes from the provider, and only the buyer gets it.
    """
    return Call(
        method="GET",
        path=path_of("/v1/reservations/{reservation_id}/payment", reservation_id),
        answers={200: (PaymentStep,)},
        headers={"Holdfast-Receipt": receipt},
    )


def check_payment(reservation_id: str, *, receipt: str | None = None) -> Call[None]:
    """Check the payment now, after the buyer returned from the bank.

    The bank's result is looked up at the provider. A webhook may have done so already; a repeat changes nothing.
    """
    return Call(
        method="POST",
        path=path_of("/v1/reservations/{reservation_id}/payment", reservation_id),
        answers={204: ()},
        headers={"Holdfast-Receipt": receipt},
    )


def extend(reservation_id: str, *, ttl_seconds: int, receipt: str | None = None) -> Call[SaleReservation | Reservation]:
    """Hold the units longer.

    They are held for `ttl_seconds` from now, but never past the limit: 1,800 s after `created_at`, or the sale's
    `max_hold_seconds` for a buyer. A deadline is never brought forward. 409 `extension_limit` only if it is at the
    limit already.
    """
    return Call(
        method="POST",
        path=path_of("/v1/reservations/{reservation_id}/extend", reservation_id),
        answers={200: (SaleReservation, Reservation)},
        headers={"Holdfast-Receipt": receipt},
        body={"ttl_seconds": ttl_seconds},
    )


def cancel(reservation_id: str, *, receipt: str | None = None) -> Call[None]:
    """Return the units."""
    return Call(
        method="DELETE",
        path=path_of("/v1/reservations/{reservation_id}", reservation_id),
        answers={204: ()},
        headers={"Holdfast-Receipt": receipt},
    )


def events(reservation_id: str, *, last_event_id: str | None = None, receipt: str | None = None) -> Call[StreamEvent]:
    """Stream the events of a reservation.

    Server-sent events: all past ones, then each state change. Streams end after at most a minute; reconnect with
    `Last-Event-ID`.
    """
    return Call(
        method="GET",
        path=path_of("/v1/reservations/{reservation_id}/events", reservation_id),
        answers={200: (StreamEvent,), 204: ()},
        headers={"Last-Event-ID": last_event_id, "Holdfast-Receipt": receipt},
    )
