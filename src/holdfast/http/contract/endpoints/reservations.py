"""Reservations: what becomes of a hold."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import (
    OWNER_OR_INVENTORY,
    OWNER_OR_READER,
    Answers,
    Document,
    Endpoint,
    Priority,
    buyer,
)
from holdfast.http.contract.headers import LAST_EVENT_ID, RECEIPT
from holdfast.http.contract.payment_problems import PAYMENT_REFUSALS
from holdfast.http.contract.schemas.inventory import ExtendIn, HistoryOut, ReservationOut, ReservationQuery, WaitQuery
from holdfast.http.contract.schemas.money import PaymentStepOut
from holdfast.http.contract.schemas.reservations import ConfirmIn, ReservationPage, SaleReservationOut

_FOUND = (problems.RESERVATION_NOT_FOUND, problems.RESERVATION_LOST)
_RESERVATION = {200: Answers("The reservation", (ReservationOut, SaleReservationOut))}
_EVENTS = """\
id: 17
event: reservation.settling
data: {"reservation_id":"rsv_…","type":"reservation.settling","at":"2030-01-31T18:00:02.000Z",…}
"""

_PAYER = buyer("Only the buyer can authenticate with the bank; send the buyer's token.")
_endpoint = partial(Endpoint, tag="reservations")

LIST_RESERVATIONS = _endpoint(
    "list_reservations",
    "GET /v1/reservations",
    summary="List reservations, newest first",
    description="A buyer lists their own: in sales, and in pools that limit units per owner. In Redis mode, a buyer's "
    "list without `sku_id` may be a moment behind.",
    access=OWNER_OR_READER,
    priority=Priority.READ,
    query=ReservationQuery,
    answers={200: Answers("A page of reservations", ReservationPage)},
)
GET_RESERVATION = _endpoint(
    "get_reservation",
    "GET /v1/reservations/{reservation_id}",
    summary="One reservation",
    description=(
        "With `wait`, responds when its state changes, or after that many seconds: a long poll for clients that "
        "cannot use the events."
    ),
    query=WaitQuery,
    access=OWNER_OR_READER,
    priority=Priority.READ,
    headers=(RECEIPT,),
    answers=_RESERVATION,
    problems=_FOUND,
    is_logged=False,
)
GET_HISTORY = _endpoint(
    "get_history",
    "GET /v1/reservations/{reservation_id}/history",
    summary="The history of a reservation",
    access=OWNER_OR_READER,
    priority=Priority.READ,
    headers=(RECEIPT,),
    answers={200: Answers("Its events, in order", HistoryOut)},
    problems=_FOUND,
)
CONFIRM = _endpoint(
    "confirm",
    "POST /v1/reservations/{reservation_id}/confirm",
    summary="Mark the units as sold; for a buyer: start to pay",
    description="A service key confirms what was paid elsewhere: in an `external` sale, or without a sale. "
    "A buyer starts the payment: 202, and events follow. After a decline the buyer names the payment method again.",
    access=OWNER_OR_INVENTORY,
    priority=Priority.FINISH,
    headers=(RECEIPT,),
    body=ConfirmIn,
    is_body_required=False,
    answers={
        200: Answers("Confirmed", (ReservationOut, SaleReservationOut)),
        202: Answers("The payment has started", SaleReservationOut),
    },
    problems=(*problems.MOVE_REFUSALS, *PAYMENT_REFUSALS, problems.TIER_REQUIRED),
    example={"status": "confirmed"},
    is_logged=False,
)
GET_PAYMENT = _endpoint(
    "get_payment",
    "GET /v1/reservations/{reservation_id}/payment",
    summary="What its payment needs next",
    description="While the reservation is `settling`, the bank may ask the buyer (3-D Secure). What the browser needs "
    "for that comes from the provider, and only the buyer gets it.",
    access=_PAYER,
    priority=Priority.FINISH,
    headers=(RECEIPT,),
    answers={200: Answers("The next step", PaymentStepOut)},
    problems=_FOUND,
    example={"status": "processing"},
    is_logged=False,
)
CHECK_PAYMENT = _endpoint(
    "check_payment",
    "POST /v1/reservations/{reservation_id}/payment",
    summary="Check the payment now, after the buyer returned from the bank",
    description=(
        "The bank's result is looked up at the provider. A webhook may have done so already; a repeat changes nothing."
    ),
    access=_PAYER,
    priority=Priority.FINISH,
    headers=(RECEIPT,),
    answers={204: Answers("It is being checked")},
    problems=_FOUND,
    is_logged=False,
)
EXTEND = _endpoint(
    "extend",
    "POST /v1/reservations/{reservation_id}/extend",
    summary="Hold the units longer",
    description="They are held for `ttl_seconds` from now, but never past the limit: 1,800 s after `created_at`, or "
    "the sale's `max_hold_seconds` for a buyer. A deadline is never brought forward. 409 `extension_limit` only if it "
    "is at the limit already.",
    access=OWNER_OR_INVENTORY,
    priority=Priority.FINISH,
    headers=(RECEIPT,),
    body=ExtendIn,
    answers=_RESERVATION,
    problems=(*problems.MOVE_REFUSALS, problems.EXTENSION_LIMIT),
    example={"expires_at": "2026-03-01T10:10:00.000Z"},
    is_logged=False,
)
CANCEL = _endpoint(
    "cancel",
    "DELETE /v1/reservations/{reservation_id}",
    summary="Return the units",
    access=OWNER_OR_INVENTORY,
    priority=Priority.FINISH,
    headers=(RECEIPT,),
    answers={204: Answers("Returned")},
    problems=problems.MOVE_REFUSALS,
    is_logged=False,
)
EVENTS = _endpoint(
    "events",
    "GET /v1/reservations/{reservation_id}/events",
    summary="Stream the events of a reservation",
    description=(
        "Server-sent events: all past ones, then each state change. Streams end after at most a minute; reconnect "
        "with `Last-Event-ID`."
    ),
    access=OWNER_OR_READER,
    priority=Priority.READ,
    checks_path=False,
    headers=(LAST_EVENT_ID, RECEIPT),
    answers={
        200: Answers("A stream of events", Document("text/event-stream", _EVENTS, ("id", "event", "data"))),
        204: Answers("It has ended, and everything was seen"),
    },
    problems=(*_FOUND, problems.BUSY),
    is_logged=False,
)
