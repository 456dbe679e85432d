"""I6: every reservation begins once, moves as the state machine allows, and ends at most once.

The checks replay all events in one query: window functions put the previous and the next event of the same reservation
next to each event. A wrong step is reported by one check only: anything after an end by `reservations_end_once`, and so
on.
"""

from sqlalchemy import and_, case, exists, func, not_, or_, select

from holdfast.domain.stock.reservation import Status
from holdfast.ledger.tables.stock import events, reservations
from holdfast.verify.check import Check

CREATED, EXTENDED, SETTLING = "reservation.created", "reservation.extended", "reservation.settling"
REOPENED = "reservation.reopened"
ACTIVE = (CREATED, EXTENDED, REOPENED)
ENDS = ("reservation.confirmed", "reservation.failed", "reservation.cancelled", "reservation.expired")
_AFTER_ACTIVE = (EXTENDED, SETTLING, "reservation.confirmed", "reservation.cancelled", "reservation.expired")
_AFTER_SETTLING = ("reservation.confirmed", "reservation.failed", REOPENED)

_steps = (
    select(
        events.c.reservation_id,
        events.c.sku_id,
        events.c.seq,
        events.c.type,
        events.c.quantity,
        events.c.expires_at,
        func.lag(events.c.type).over(partition_by=events.c.reservation_id, order_by=events.c.seq).label("before"),
        func.lead(events.c.type).over(partition_by=events.c.reservation_id, order_by=events.c.seq).label("next"),
    )
    .where(events.c.reservation_id.is_not(None), events.c.type.like("reservation.%"))
    .subquery("steps")
)
_begun = (
    select(events.c.reservation_id, func.count().label("times"))
    .where(events.c.type == CREATED)
    .group_by(events.c.reservation_id)
    .subquery("begun")
)

_created_once = Check(
    "reservations_begin_once",
    "Every reservation has exactly one event of its creation.",
    reservations,
    select(reservations.c.reservation_id, func.coalesce(_begun.c.times, 0).label("times_created"))
    .outerjoin(_begun, _begun.c.reservation_id == reservations.c.reservation_id)
    .where(func.coalesce(_begun.c.times, 0) != 1),
)

_known = Check(
    "events_have_reservation",
    "Every event of a reservation belongs to one that exists.",
    events,
    select(events.c.reservation_id, events.c.type, events.c.seq).where(
        events.c.reservation_id.is_not(None),
        ~exists().where(reservations.c.reservation_id == events.c.reservation_id),
    ),
)

_end_once = Check(
    "reservations_end_once",
    "Every reservation ended at most once, and has no events after its end.",
    reservations,
    select(_steps.c.reservation_id, _steps.c.before.label("ended_by"), _steps.c.type.label("then"), _steps.c.seq).where(
        _steps.c.before.in_(ENDS)
    ),
)

_is_legal = or_(
    and_(_steps.c.before.in_(ACTIVE), _steps.c.type.in_(_AFTER_ACTIVE)),
    and_(_steps.c.before == SETTLING, _steps.c.type.in_(_AFTER_SETTLING)),
)
_legal = Check(
    "transitions_legal",
    "Every change of state is allowed by the state machine.",
    events,
    select(_steps.c.reservation_id, _steps.c.before, _steps.c.type.label("then"), _steps.c.seq).where(
        _steps.c.before.is_not(None), _steps.c.before.not_in(ENDS), _steps.c.type != CREATED, not_(_is_legal)
    ),
)

_last_status = case(
    (_steps.c.type.in_(ACTIVE), Status.ACTIVE.value),
    else_=func.replace(_steps.c.type, "reservation.", ""),
)
_as_recorded = Check(
    "reservations_as_told",
    "The state, quantity and deadline of every reservation match its last event.",
    reservations,
    select(reservations.c.reservation_id, reservations.c.status, _last_status.label("last_event"))
    .join(_steps, _steps.c.reservation_id == reservations.c.reservation_id)
    .where(_steps.c.next.is_(None), or_(_steps.c.before.is_(None), _steps.c.before.not_in(ENDS)))
    .where(
        or_(
            reservations.c.status != _last_status,
            reservations.c.quantity != _steps.c.quantity,
            reservations.c.expires_at != _steps.c.expires_at,
            reservations.c.sku_id != _steps.c.sku_id,
        )
    ),
)

CHECKS = (_created_once, _known, _end_once, _legal, _as_recorded)
