# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `inventory`."""

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, new_key, optional, path_of
from holdfast.client.types.inventory import Pool, Reservation


def create_pool(
    sku_id: str, *, total_units: int, per_owner_limit: int | UnsetType | None = UNSET, shards: int | None = None
) -> Call[Pool]:
    """Create a pool, or set its total."""
    return Call(
        method="PUT",
        path=path_of("/v1/inventory/{sku_id}", sku_id),
        answers={200: (Pool,)},
        body={"total_units": total_units, "per_owner_limit": per_owner_limit, "shards": optional(shards)},
    )


def available(sku_id: str) -> Call[Pool]:
    """How many units are free, held and sold."""
    return Call(
        method="GET",
        path=path_of("/v1/inventory/{sku_id}/available", sku_id),
        answers={200: (Pool,)},
    )


def reserve(
    sku_id: str,
    *,
    owner_id: str,
    quantity: int,
    ttl_seconds: int | UnsetType = UNSET,
    idempotency_key: str | None = None,
    min_quantity: int | None = None,
    tier: int | UnsetType = UNSET,
) -> Call[Reservation]:
    """Hold units for an owner until a deadline."""
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/inventory/{sku_id}/reserve", sku_id),
        answers={200: (Reservation,)},
        body={
            "owner_id": owner_id,
            "quantity": quantity,
            "ttl_seconds": ttl_seconds,
            "idempotency_key": idempotency_key,
            "min_quantity": optional(min_quantity),
            "tier": tier,
        },
        idempotency_key=idempotency_key,
    )
