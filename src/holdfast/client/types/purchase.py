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


class Quote(Struct, frozen=True, kw_only=True):
    quote_id: str
    sale_id: str
    quantity: int
    amount: int  # The total price of the purchase, in the smallest unit of `currency`.
    currency: str
    rate: str | None = None  # One unit of the sale's currency in this one; omitted if they are the same.
    expires_at: datetime
