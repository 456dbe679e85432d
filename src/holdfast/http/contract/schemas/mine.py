"""What a buyer has in a sale."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.http.contract.schemas.inventory import ReservationOut
from holdfast.http.contract.schemas.money import OrderOut
from holdfast.http.contract.schemas.room import PassOut, PlaceOut


class MineOut(Struct, frozen=True, rename={"pass_": "pass"}):
    place: Annotated[PlaceOut, Meta(description="While you are in line, or have a pass.")] | UnsetType = UNSET
    pass_: Annotated[PassOut, Meta(description="While it is valid.")] | UnsetType = UNSET
    reservations: Annotated[list[ReservationOut], Meta(description="In this sale, newest first, at most 100.")] = []
    orders: Annotated[list[OrderOut], Meta(description="In this sale, newest first, at most 100.")] = []
