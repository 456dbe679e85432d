# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `drops`."""

from datetime import datetime

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.drops import Drop, DropPage
from holdfast.client.types.sales import RoomIn


def create_drop(
    *,
    drop_id: str,
    name: str,
    starts_at: datetime | str,
    per_buyer_limit: int | None = None,
    room: RoomIn | UnsetType = UNSET,
) -> Call[Drop]:
    """Create a drop.

    Sales join it when they are created, with `drop_id`, up to 50. The same request again: 200.
    """
    return Call(
        method="POST",
        path="/v1/drops",
        answers={201: (Drop,), 200: (Drop,)},
        body={
            "drop_id": drop_id,
            "name": name,
            "starts_at": starts_at,
            "per_buyer_limit": optional(per_buyer_limit),
            "room": room,
        },
    )


def list_drops(*, limit: int | UnsetType = UNSET, starting_after: str | None = None) -> Call[DropPage]:
    """List drops, by ID."""
    return Call(
        method="GET",
        path="/v1/drops",
        answers={200: (DropPage,)},
        query={"limit": limit, "starting_after": optional(starting_after)},
    )


def get_drop(drop_id: str) -> Call[Drop]:
    """What a drop sells, and when.

    Public, and the same for everyone. The state of each sale is at its /now.
    """
    return Call(
        method="GET",
        path=path_of("/v1/drops/{drop_id}", drop_id),
        answers={200: (Drop,)},
    )


def change_drop(
    drop_id: str,
    *,
    name: str | None = None,
    starts_at: datetime | str | None = None,
    per_buyer_limit: int | UnsetType | None = UNSET,
    room: RoomIn | None = None,
) -> Call[Drop]:
    """Change a drop.

    Its name, its limit and the pace of its room at any time; the start before the start only. A limit cannot be
    introduced once the drop has sales.
    """
    return Call(
        method="PATCH",
        path=path_of("/v1/drops/{drop_id}", drop_id),
        answers={200: (Drop,)},
        body={
            "name": optional(name),
            "starts_at": optional(starts_at),
            "per_buyer_limit": per_buyer_limit,
            "room": optional(room),
        },
    )
