"""Drops: several sales with one waiting line and a limit per buyer across them."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import Sale
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.sales import (
    Name,
    PriceOut,
    RoomIn,
    RoomOut,
    StartsAt,
    Units,
)
from holdfast.http.contract.schemas.values import DropId, Limit, Moment, Timestamp

_LimitAcross = Annotated[
    Units, Meta(description="Units one buyer may hold or have bought in all sales of the drop together; null: any.")
]


class DropIn(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    drop_id: DropId
    name: Name
    starts_at: Annotated[StartsAt, Meta(description="When its line opens. Its sales start then or later.")]
    per_buyer_limit: _LimitAcross | None = None
    room: RoomIn = RoomIn()

    def drop(self) -> Drop:
        return Drop(
            drop_id=self.drop_id,
            name=self.name,
            starts_at=int(self.starts_at),
            per_buyer_limit=self.per_buyer_limit,
            room=self.room.room(),
        )


class DropPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Left out: unchanged. Null, where it may be: none."""

    name: Name | UnsetType = UNSET
    starts_at: Annotated[Moment, Meta(description="Before the start only.")] | UnsetType = UNSET
    per_buyer_limit: _LimitAcross | UnsetType | None = UNSET
    room: RoomIn | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        given = {name: value for name, value in structs.asdict(self).items() if value is not UNSET}
        if isinstance(self.room, RoomIn):
            given["room"] = self.room.room()
        if isinstance(self.starts_at, Moment):
            given["starts_at"] = int(self.starts_at)
        return given


class DropQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 20
    starting_after: Annotated[DropId, Meta(description="The last drop ID of the previous page.")] | None = None


class DropSaleOut(Struct, frozen=True):
    """One of its sales, as everyone may see it."""

    sale_id: str
    sku_id: str
    name: str
    image_url: str | None
    price: PriceOut
    starts_at: Timestamp
    per_buyer_limit: int | None

    @classmethod
    def of(cls, sale: Sale) -> "DropSaleOut":
        return copy_fields(cls, sale, price=PriceOut(sale.price_amount, sale.currency))


class DropOut(Struct, frozen=True):
    drop_id: str
    name: str
    starts_at: Timestamp
    per_buyer_limit: int | None
    room: RoomOut
    sales: Annotated[list[DropSaleOut], Meta(description="In the order in which they were created.")]
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, drop: Drop, sales: Sequence[Sale]) -> "DropOut":
        room = RoomOut(*structs.astuple(drop.room))
        return copy_fields(cls, drop, room=room, sales=[DropSaleOut.of(sale) for sale in sales])


class DropPage(Struct, frozen=True):
    data: list[DropOut]
    has_more: bool
