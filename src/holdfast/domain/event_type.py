"""The events that the world may hear of."""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase


class EventType(StrEnum):
    RESERVATION_CREATED = "reservation.created"
    RESERVATION_EXTENDED = "reservation.extended"
    RESERVATION_CANCELLED = "reservation.cancelled"
    RESERVATION_EXPIRED = "reservation.expired"
    RESERVATION_SETTLING = "reservation.settling"
    RESERVATION_CONFIRMED = "reservation.confirmed"
    RESERVATION_FAILED = "reservation.failed"
    ORDER_CONFIRMED = "order.confirmed"
    ORDER_REFUNDED = "order.refunded"
    POOL_SOLD_OUT = "pool.sold_out"
    POOL_RETURNED = "pool.returned"
    POOL_DRIFT = "pool.drift"
    SALE_OPENED = "sale.opened"
    SALE_CLOSED = "sale.closed"


# What may be asked for: one type, all of a kind, or all.
EVENT_PATTERNS = frozenset({*EventType, *(f"{kind.partition('.')[0]}.*" for kind in EventType), "*"})


def wanted_types(patterns: Iterable[str]) -> frozenset[str]:
    """Of the types known today: a pattern covers those to come as well."""
    given = list(patterns)
    return frozenset(kind for kind in EventType if any(fnmatchcase(kind, pattern) for pattern in given))
