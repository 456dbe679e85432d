# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `purchase`."""

from datetime import datetime

from msgspec import Struct

from holdfast.client.types.inventory import Status


class Purchase(Struct, frozen=True, kw_only=True):
    reservation_id: str
    sale_id: str
    quantity: int
    status: Status
    expires_at: datetime
    amount: int
    currency: str
    receipt: str  # Proof that this was granted: a JWT that this server can read.
