# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `inventory`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    Availability = Literal["all_held", "available", "sold_out"]
    Status = Literal["active", "cancelled", "confirmed", "expired", "failed", "settling"]
else:
    Availability = str
    Status = str


class Pool(Struct, frozen=True, kw_only=True):
    sku_id: str
    available: int
    active_reservations: int
    held: int
    sold: int
    total_units: int
    per_owner_limit: int | None = None
    state: Availability
    next_return_at: datetime | None = None  # If all units are held, the earliest deadline. Not in responses to PUT.


class Reservation(Struct, frozen=True, kw_only=True):
    reservation_id: str
    sku_id: str
    owner_id: str
    quantity: int
    status: Status
    created_at: datetime
    expires_at: datetime
    confirmed_at: datetime | None = None
