"""Units promised to an owner until a deadline."""

from enum import StrEnum

from msgspec import Struct
from uuid_utils import uuid7

from holdfast.domain.shards import mark_of

MAX_QUANTITY = 1_000_000
MIN_TTL_MS = 1_000
DEFAULT_TTL_MS = 300_000
# A hold is a promise to pay soon. Half an hour in all is long enough for any checkout; without a cap one shopper could
# extend for ever and keep stock from everyone else.
MAX_HOLD_MS = 1_800_000

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

    def is_due(self, now: int) -> bool:
        return self.status is Status.ACTIVE and self.expires_at <= now


def new_reservation_id(sku_id: str, owner_id: str) -> str:
    """Ids sort by time, name their pool and bear their owner's mark, so that a move finds its pool, and its shard,
    without a look-up, in every engine."""
    return f"{_PREFIX}{uuid7().hex[:-2]}{mark_of(owner_id)}_{sku_id}"


def sku_of(reservation_id: str) -> str | None:
    """The pool a reservation id names, or None if it is no reservation id at all."""
    if not reservation_id.startswith(_PREFIX) or len(reservation_id) <= _SKU_STARTS:
        return None
    return reservation_id[_SKU_STARTS:]
