# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `drops`."""

from datetime import datetime

from msgspec import Struct

from holdfast.client.types.sales import Price, Room


class DropSale(Struct, frozen=True, kw_only=True):
    """One of its sales, as everyone may see it."""

    sale_id: str
    sku_id: str
    name: str
    image_url: str | None = None
    price: Price
    starts_at: datetime
    per_buyer_limit: int | None = None


class Drop(Struct, frozen=True, kw_only=True):
    drop_id: str
    name: str
    starts_at: datetime
    per_buyer_limit: int | None = None
    room: Room
    sales: list[DropSale]  # In the order in which they were created.
    created_at: datetime
    updated_at: datetime


class DropPage(Struct, frozen=True, kw_only=True):
    data: list[Drop]
    has_more: bool
