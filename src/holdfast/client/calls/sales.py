# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `sales`."""

from datetime import datetime

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, new_key, optional, path_of
from holdfast.client.types.sales import (
    AfterAttempts,
    BrandIn,
    Challenge,
    Checkout,
    Now,
    OperatorSale,
    OversellPolicy,
    PaymentKind,
    PriceIn,
    ProofOfWorkIn,
    RoomIn,
    Sale,
    SalePage,
)


def create_sale(
    *,
    sale_id: str,
    sku_id: str,
    name: str,
    total_units: int,
    price: PriceIn,
    starts_at: datetime | str,
    ends_at: datetime | str | None = None,
    per_buyer_limit: int | UnsetType | None = UNSET,
    hold_seconds: int | UnsetType = UNSET,
    max_hold_seconds: int | None = None,
    hold_budget: int | None = None,
    checkout: Checkout | UnsetType = UNSET,
    payment: PaymentKind,
    oversell_policy: OversellPolicy | UnsetType = UNSET,
    review_above_percent: int | UnsetType = UNSET,
    buffer_units: int | UnsetType = UNSET,
    required_tier: int | None = None,
    payment_attempts_max: int | UnsetType = UNSET,
    after_attempts: AfterAttempts | UnsetType = UNSET,
    units_per_address: int | None = None,
    purchase_attempts_max: int | None = None,
    description: str | None = None,
    image_url: str | None = None,
    checkout_url: str | None = None,
    brand: BrandIn | None = None,
    locale: str | None = None,
    room: RoomIn | UnsetType = UNSET,
    proof_of_work: ProofOfWorkIn | None = None,
    drop_id: str | None = None,
    cell: str | None = None,
    notify: bool | UnsetType = UNSET,
) -> Call[OperatorSale]:
    """Create a sale and load its pool.

    It opens once its pool is loaded and checked; see `state` and `problem`. The same request again: 200.
    """
    return Call(
        method="POST",
        path="/v1/sales",
        answers={201: (OperatorSale,), 200: (OperatorSale,)},
        body={
            "sale_id": sale_id,
            "sku_id": sku_id,
            "name": name,
            "total_units": total_units,
            "price": price,
            "starts_at": starts_at,
            "ends_at": optional(ends_at),
            "per_buyer_limit": per_buyer_limit,
            "hold_seconds": hold_seconds,
            "max_hold_seconds": optional(max_hold_seconds),
            "hold_budget": optional(hold_budget),
            "checkout": checkout,
            "payment": payment,
            "oversell_policy": oversell_policy,
            "review_above_percent": review_above_percent,
            "buffer_units": buffer_units,
            "required_tier": optional(required_tier),
            "payment_attempts_max": payment_attempts_max,
            "after_attempts": after_attempts,
            "units_per_address": optional(units_per_address),
            "purchase_attempts_max": optional(purchase_attempts_max),
            "description": optional(description),
            "image_url": optional(image_url),
            "checkout_url": optional(checkout_url),
            "brand": optional(brand),
            "locale": optional(locale),
            "room": room,
            "proof_of_work": optional(proof_of_work),
            "drop_id": optional(drop_id),
            "cell": optional(cell),
            "notify": notify,
        },
    )


def list_sales(*, limit: int | UnsetType = UNSET, starting_after: str | None = None) -> Call[SalePage]:
    """List sales, by ID."""
    return Call(
        method="GET",
        path="/v1/sales",
        answers={200: (SalePage,)},
        query={"limit": limit, "starting_after": optional(starting_after)},
    )


def get_sale(sale_id: str) -> Call[OperatorSale | Sale]:
    """The public facts of a sale.

    Public, and the same for everyone, so that caches can answer. Service keys with the scope `sales` see more.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}", sale_id),
        answers={200: (OperatorSale, Sale)},
    )


def change_sale(
    sale_id: str,
    *,
    name: str | None = None,
    description: str | UnsetType | None = UNSET,
    image_url: str | UnsetType | None = UNSET,
    checkout_url: str | UnsetType | None = UNSET,
    brand: BrandIn | UnsetType | None = UNSET,
    locale: str | UnsetType | None = UNSET,
    price: PriceIn | None = None,
    starts_at: datetime | str | None = None,
    ends_at: datetime | str | UnsetType | None = UNSET,
    per_buyer_limit: int | UnsetType | None = UNSET,
    hold_seconds: int | None = None,
    max_hold_seconds: int | None = None,
    hold_budget: int | UnsetType | None = UNSET,
    required_tier: int | UnsetType | None = UNSET,
    units_per_address: int | UnsetType | None = UNSET,
    purchase_attempts_max: int | UnsetType | None = UNSET,
    payment_attempts_max: int | None = None,
    after_attempts: AfterAttempts | None = None,
    checkout: Checkout | None = None,
    payment: PaymentKind | None = None,
    oversell_policy: OversellPolicy | None = None,
    review_above_percent: int | None = None,
    buffer_units: int | None = None,
    room: RoomIn | None = None,
    proof_of_work: ProofOfWorkIn | UnsetType | None = UNSET,
    notify: bool | None = None,
) -> Call[OperatorSale]:
    """Change a sale.

    Names, limits, times and the room at any time; price, payment and the start before the start only.
    """
    return Call(
        method="PATCH",
        path=path_of("/v1/sales/{sale_id}", sale_id),
        answers={200: (OperatorSale,)},
        body={
            "name": optional(name),
            "description": description,
            "image_url": image_url,
            "checkout_url": checkout_url,
            "brand": brand,
            "locale": locale,
            "price": optional(price),
            "starts_at": optional(starts_at),
            "ends_at": ends_at,
            "per_buyer_limit": per_buyer_limit,
            "hold_seconds": optional(hold_seconds),
            "max_hold_seconds": optional(max_hold_seconds),
            "hold_budget": hold_budget,
            "required_tier": required_tier,
            "units_per_address": units_per_address,
            "purchase_attempts_max": purchase_attempts_max,
            "payment_attempts_max": optional(payment_attempts_max),
            "after_attempts": optional(after_attempts),
            "checkout": optional(checkout),
            "payment": optional(payment),
            "oversell_policy": optional(oversell_policy),
            "review_above_percent": optional(review_above_percent),
            "buffer_units": optional(buffer_units),
            "room": optional(room),
            "proof_of_work": proof_of_work,
            "notify": optional(notify),
        },
    )


def pause_sale(sale_id: str) -> Call[OperatorSale]:
    """Pause new reservations."""
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/pause", sale_id),
        answers={200: (OperatorSale,)},
    )


def resume_sale(sale_id: str) -> Call[OperatorSale]:
    """Resume a paused sale."""
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/resume", sale_id),
        answers={200: (OperatorSale,)},
    )


def close_sale(sale_id: str) -> Call[OperatorSale]:
    """End a sale now, permanently.

    No new reservations. Held units can still be paid for until their deadline.
    """
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/close", sale_id),
        answers={200: (OperatorSale,)},
    )


def restock_sale(sale_id: str, *, units: int, idempotency_key: str | None = None) -> Call[OperatorSale]:
    """Add units, or remove free ones."""
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/restock", sale_id),
        answers={200: (OperatorSale,)},
        headers={"Idempotency-Key": idempotency_key},
        body={"units": units},
        idempotency_key=idempotency_key,
    )


def now(sale_id: str) -> Call[Now]:
    """The current state of a sale.

    Public, the same for everyone, and cacheable for a second.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/now", sale_id),
        answers={200: (Now,)},
    )


def challenge(sale_id: str, *, level: int | UnsetType = UNSET) -> Call[Challenge | None]:
    """A challenge to solve before joining.

    Public; ALTCHA's clients solve it, and the join takes the solution as `proof`. With a buyer's token it is for
    that buyer alone. It is valid for two minutes and for one join.
    """
    return Call(
        method="GET",
        path=path_of("/v1/sales/{sale_id}/challenge", sale_id),
        answers={200: (Challenge,), 204: ()},
        query={"level": level},
    )
