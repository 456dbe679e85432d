# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `money`."""

from datetime import datetime

from msgspec import Struct

from holdfast.client.types.room import Order


class OrderPage(Struct, frozen=True, kw_only=True):
    data: list[Order]
    has_more: bool
    unavailable_cells: list[str] | None = None  # Cells that did not answer in time; the list lacks their items.


class Refund(Struct, frozen=True, kw_only=True):
    refund_id: str
    order_id: str | None = None
    amount: int
    currency: str
    restock_units: int
    status: str  # `done`, `waiting` (the provider is being asked) or `parked` (needs attention).
    created_at: datetime
    reason: str | None = None


class Balance(Struct, frozen=True, kw_only=True):
    buyer_id: str
    balance: int
    currency: str


class Wallet(Struct, frozen=True, kw_only=True):
    """`balance` and `currency` are those of the first, for buyers who have one currency only."""

    buyer_id: str
    balance: int
    currency: str | None = None
    balances: list[Balance]
