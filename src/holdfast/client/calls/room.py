# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `room`."""

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.room import Jwks, Mine, Pass, Place, RoomFacts, Wait


def join(sale_id: str, *, proof: str | None = None, device: str | None = None) -> Call[Place]:
    """Join the queue.

    For buyers. One place for each: joining again returns the same one, with a fresh ticket. While the store is
    unavailable or overloaded, the response is 202 with a provisional ticket: a signed stamp of the arrival, which
    determines the place.
    """
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/queue", sale_id),
        answers={200: (Place,), 202: (Place,)},
        body={"proof": optional(proof), "device": optional(device)},
    )


def leave(sale_id: str, *, ticket: str) -> Call[None]:
    """Leave the queue.

    The place is released. Joining again gives a place at the end.
    """
    return Call(
        method="DELETE",
        path=path_of("/v1/sales/{sale_id}/queue", sale_id),
        answers={204: ()},
        headers={"Holdfast-Ticket": ticket},
    )


def status(sale_id: str, *, ticket: str) -> Call[Place]:
    """Look at your place.

    Rarely needed: /now has `serving`, is the same for everyone and is cached.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/queue/status", sale_id),
        answers={200: (Place,), 202: (Place,)},
        headers={"Holdfast-Ticket": ticket},
    )


def admission(sale_id: str, *, ticket: str) -> Call[Pass | Wait]:
    """Ask for a pass.

    When position ≤ serving. A repeat returns the same pass while it is valid.
    """
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/admission", sale_id),
        answers={200: (Pass,), 202: (Wait,)},
        headers={"Holdfast-Ticket": ticket},
    )


def mine(sale_id: str) -> Call[Mine]:
    """What you have in this sale.

    For buyers: their place and pass, if any, their reservations and their orders, from all devices and browsers.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/mine", sale_id),
        answers={200: (Mine,)},
    )


def get_room(sale_id: str) -> Call[RoomFacts]:
    """The queue and its pace."""
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/room", sale_id),
        answers={200: (RoomFacts,)},
    )


def change_room(
    sale_id: str,
    *,
    rate_per_second: int | UnsetType | None = UNSET,
    paused: bool | None = None,
    beacon_value: str | None = None,
    admit: int | UnsetType | None = UNSET,
) -> Call[RoomFacts]:
    """Set the rate, pause the queue, admit people."""
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/room", sale_id),
        answers={200: (RoomFacts,)},
        body={
            "rate_per_second": rate_per_second,
            "paused": optional(paused),
            "beacon_value": optional(beacon_value),
            "admit": admit,
        },
        is_repeatable=False,
    )


def lottery_entries(sale_id: str, *, from_: int | UnsetType = UNSET) -> Call[str]:
    """The closed list of a lottery.

    Public after the draw. Pages of 10,000, linked by the `Link` header; concatenated, they are the file whose
    SHA-256 is the `digest` in `now`.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/lottery/entries", sale_id),
        answers={200: (str,)},
        query={"from": from_},
    )


def jwks() -> Call[Jwks]:
    """The public keys of passes.

    Anyone can check a pass with these: `sub` is the buyer, `sale` the sale, `exp` its end.
    """
    return Call(
        method="GET",
        path="/.well-known/jwks.json",
        answers={200: (Jwks,)},
    )
