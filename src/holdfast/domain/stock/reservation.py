"""Units promised to an owner until a deadline."""

from enum import StrEnum

from msgspec import Struct
from uuid_utils import uuid7

from holdfast.domain.stock.shards import mark_of

_PREFIX = "rsv_"
_SKU_STARTS = len(_PREFIX) + 33


class Status(StrEnum):
    ACTIVE = "active"
    SETTLING = "settling"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Reservation(Struct, frozen=True, gc=False):
    reservation_id: str
    sku_id: str
    owner_id: str
    quantity: int
    status: Status
    created_at: int
    expires_at: int
    # How often a payment was begun for it.
    attempts: int = 0
    confirmed_at: int | None = None

    def is_due(self, now: int) -> bool:
        return self.status is Status.ACTIVE and self.expires_at <= now


def new_reservation_id(sku_id: str, owner_id: str) -> str:
    """IDs sort by time and contain the pool's name and the owner's mark, so that every engine finds the pool and shard
    without a look-up."""
    return f"{_PREFIX}{uuid7().hex[:-2]}{mark_of(owner_id)}_{sku_id}"


def sku_of(reservation_id: str) -> str | None:
    """The pool named by a reservation ID, or None if it is not a reservation ID."""
    if not reservation_id.startswith(_PREFIX) or len(reservation_id) <= _SKU_STARTS:
        return None
    return reservation_id[_SKU_STARTS:]


def made_at(reservation_id: str) -> int:
    """When it was made, by the clock of the host that made it, in milliseconds; 0 if that cannot be an ID."""
    try:
        return int(reservation_id[len(_PREFIX) : len(_PREFIX) + 12], 16)
    except ValueError:
        return 0
