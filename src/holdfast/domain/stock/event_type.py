"""The types of published events."""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase


class EventType(StrEnum):
    RESERVATION_CREATED = "reservation.created"
    RESERVATION_EXTENDED = "reservation.extended"
    RESERVATION_CANCELLED = "reservation.cancelled"
    RESERVATION_EXPIRED = "reservation.expired"
    RESERVATION_SETTLING = "reservation.settling"
    # Its payment was declined: it is active again, until the same deadline.
    RESERVATION_REOPENED = "reservation.reopened"
    RESERVATION_CONFIRMED = "reservation.confirmed"
    RESERVATION_FAILED = "reservation.failed"
    PAYMENT_DECLINED = "payment.declined"
    ORDER_PENDING = "order.pending"
    ORDER_CONFIRMED = "order.confirmed"
    ORDER_FULFILLED = "order.fulfilled"
    ORDER_REFUNDED = "order.refunded"
    # It was never paid, or cannot be delivered.
    ORDER_CANCELLED = "order.cancelled"
    POOL_SOLD_OUT = "pool.sold_out"
    POOL_RETURNED = "pool.returned"
    POOL_DRIFT = "pool.drift"
    # Derived from the counts of a pool, at most once a second; no record of what happened, and not in history.
    POOL_UPDATED = "pool.updated"
    SALE_OPENED = "sale.opened"
    SALE_CLOSED = "sale.closed"


# Valid subscriptions: one type, all types of a kind, or everything.
EVENT_PATTERNS = frozenset({*EventType, *(f"{kind.partition('.')[0]}.*" for kind in EventType), "*"})


def wanted_types(patterns: Iterable[str]) -> frozenset[str]:
    """The known types that the patterns match. A pattern also covers types added later."""
    given = list(patterns)
    return frozenset(kind for kind in EventType if any(fnmatchcase(kind, pattern) for pattern in given))
