"""A buyer's timeline: their refusals, their places in line and the history of their reservations, in order."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, select

from holdfast.audit.refusal import Refusal
from holdfast.audit.search import Question, Refusals
from holdfast.domain.room.risk import RiskVerdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import events, pools, reservations

REFUSED = "refused"


class Moment(Struct, frozen=True, omit_defaults=True):
    """`what` is a message for people. The other fields are for programs."""

    at: int
    type: str
    what: str
    sku_id: str
    quantity: int | None = None
    reservation_id: str | None = None
    outcome: str | None = None
    sale_id: str | None = None
    available: int | None = None
    next_return_at: int | None = None
    request_id: str | None = None
    trace_id: str | None = None


class Known(Struct, frozen=True):
    """From the ledger: the events of the buyer's latest reservations, and the totals of the pools."""

    events: list[Any]
    totals: dict[str, int]


def sku_of_sale(connection: Connection, sale_id: str) -> str | None:
    return connection.execute(select(sales.c.sku_id).where(sales.c.sale_id == sale_id)).scalar_one_or_none()


def read_ledger(connection: Connection, question: Question) -> Known:
    query = (
        select(events)
        .join(reservations, reservations.c.reservation_id == events.c.reservation_id)
        .where(reservations.c.owner_id == question.owner_id)
        .order_by(events.c.seq.desc())
        .limit(question.limit)
    )
    if question.sku_id is not None:
        of_it = reservations.c.sku_id.startswith(f"{question.sku_id}/", autoescape=True)
        query = query.where((reservations.c.sku_id == question.sku_id) | of_it)
    if question.since_ms is not None:
        query = query.where(events.c.at >= question.since_ms)
    if question.until_ms is not None:
        query = query.where(events.c.at < question.until_ms)
    totals = connection.execute(select(pools.c.sku_id, pools.c.total))
    return Known(list(connection.execute(query)), {row.sku_id: row.total for row in totals})


def merge(refusals: Refusals, known: Known, limit: int, in_line: Sequence[Moment] = ()) -> list[Moment]:
    """The latest moments, in order. In the same millisecond a refusal comes before what the next attempt achieved."""
    refused = [_of_refusal(refusal, known.totals.get(refusal.sku_id)) for refusal in refusals.latest]
    happened = [_of_event(event) for event in reversed(known.events)]
    return sorted([*refused, *in_line, *happened], key=lambda moment: moment.at)[-limit:]


def _of_refusal(r: Refusal, total: int | None) -> Moment:
    if r.outcome == RiskVerdict.LOTTERY_TAIL:
        what = "risk service: to the end of the line, behind everybody who came before the opening"
        return Moment(r.at_ms, "room.sent_last", what, r.sku_id, sale_id=r.sale_id, request_id=r.request_id)
    return Moment(
        r.at_ms,
        REFUSED,
        f"refused: {_why(r, total)}",
        r.sku_id,
        r.quantity or None,
        None,
        str(r.outcome),
        r.sale_id,
        r.available,
        r.next_return_at,
        r.request_id,
        r.trace_id or None,
    )


def _why(r: Refusal, total: int | None) -> str:
    every = "every unit was" if total is None else f"all {total:,} units were"
    match r.outcome:
        case Outcome.ALL_HELD if r.next_return_at is not None:
            return f"{every} sold or in carts, next return at {time_of_day(r.next_return_at, r.at_ms)}"
        case Outcome.ALL_HELD:
            return f"{every} sold or being paid"
        case Outcome.SOLD_OUT:
            return f"{every} sold"
        case Outcome.INSUFFICIENT:
            return f"{_units(r.quantity)} requested, {r.available} available"
        case _:
            return _REASONS.get(r.outcome, r.outcome.replace("_", " "))


_REASONS = {
    Outcome.KEY_REUSED.value: "the idempotency key was used before, for another request",
    Outcome.POOL_NOT_FOUND.value: "there was no such pool",
    Outcome.NOT_READY.value: "the pool was being prepared",
    Outcome.NOT_OPEN.value: "the sale had not started",
    Outcome.PAUSED.value: "the sale was paused",
    Outcome.ENDED.value: "the sale had ended",
    Outcome.TIER_REQUIRED.value: "a higher account tier was required",
    Outcome.BUYER_LIMIT.value: "the limit per buyer was reached",
    Outcome.HOLD_BUDGET.value: "too many unpaid holds",
    # Where the request was shed.
    "admission_required": "there was no valid pass: it was not their turn, or the pass had expired",
    "pass_expired": "the pass had expired",
    "place_released": "the place had been left, or replaced by a later one",
    "ticket_required": "no ticket was shown",
    "ticket_invalid": "the ticket was not valid for this buyer and sale",
    "proof_required": "the proof of work was missing",
    "proof_invalid": "the proof of work was wrong",
    "proof_expired": "the proof of work had expired",
    "proof_spent": "the proof of work had been used",
    "join_denied": "the risk service, or a proxy in front, denied the join",
    "harder_puzzle": "the risk service, or a proxy in front, asked for a harder proof of work",
    "device_required": "no token of the device was sent",
    "device_limit": "the limit of accounts per device was reached",
    "too_many_places": "too many places were taken from the same address",
    "rejoin_limit": "the buyer had left the waiting room too often",
    "address_limit": "the limit per address was reached",
    "attempt_limit": "the limit of attempts per buyer was reached",
    "sale_ended": "the sale had ended",
    "sale_not_open": "the sale had not started",
    "no_waiting_room": "the sale had no waiting room",
    "quote_expired": "the quote had expired",
    "quote_mismatch": "the quote was for another purchase",
    "reservation_expired": "the reservation had expired",
    "extension_limit": "the reservation could not be extended any further",
}


def _of_event(event: Any) -> Moment:
    return Moment(event.at, event.type, _what(event), event.sku_id, event.quantity, event.reservation_id)


def _what(event: Any) -> str:
    units = _units(event.quantity or 0)
    match event.type:
        case "reservation.created":
            return f"reserved: {units}, payment due by {time_of_day(event.expires_at or 0, event.at)}"
        case "reservation.extended":
            return f"extended: payment due by {time_of_day(event.expires_at or 0, event.at)}"
        case "reservation.settling":
            return "settling: payment started"
        case "reservation.reopened":
            return f"payment declined: still reserved, payment due by {time_of_day(event.expires_at or 0, event.at)}"
        case "reservation.confirmed":
            return f"confirmed: {units} sold"
        case "reservation.cancelled":
            return f"cancelled: {units} returned"
        case "reservation.expired":
            return f"expired: not paid in time, {units} returned"
        case "reservation.failed":
            return f"failed: payment declined, {units} returned"
        case _:
            return f"{event.type.replace('.', ' ')}: {event.subject or units}"


def _units(count: int) -> str:
    return f"{count:,} unit{'' if count == 1 else 's'}"


def time_of_day(at_ms: int, seen_from_ms: int | None = None) -> str:
    """Includes the date if it differs."""
    seen_from_ms = at_ms if seen_from_ms is None else seen_from_ms
    at, seen_from = (datetime.fromtimestamp(ms // 1000, UTC) for ms in (at_ms, seen_from_ms))
    return f"{at:%H:%M:%S}" if at.date() == seen_from.date() else f"{at:%Y-%m-%d %H:%M:%S}"
