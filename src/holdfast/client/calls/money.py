# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `money`."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, new_key, optional, path_of
from holdfast.client.types.money import Balance, OrderPage, Refund, Wallet
from holdfast.client.types.room import Order


def list_orders(
    *,
    buyer_id: str | None = None,
    sale_id: str | None = None,
    status: Literal["cancelled", "confirmed", "fulfilled", "pending", "refunded"] | None = None,
    number: str | None = None,
    to_source: bool | UnsetType = UNSET,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[OrderPage]:
    """List orders, newest first."""
    return Call(
        method="GET",
        path="/v1/orders",
        answers={200: (OrderPage,)},
        query={
            "buyer_id": optional(buyer_id),
            "sale_id": optional(sale_id),
            "status": optional(status),
            "number": optional(number),
            "to_source": to_source,
            "limit": limit,
            "starting_after": optional(starting_after),
        },
    )


def get_order(order_id: str) -> Call[Order]:
    """One order."""
    return Call(
        method="GET",
        path=path_of("/v1/orders/{order_id}", order_id),
        answers={200: (Order,)},
    )


def fulfil_order(order_id: str, *, tracking: str | None = None, idempotency_key: str | None = None) -> Call[Order]:
    """Mark a paid order as sent to its buyer.

    Once per order. A repeat with the same tracking number returns the same result; the same key with another
    number is refused.
    """
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/orders/{order_id}/fulfil", order_id),
        answers={200: (Order,)},
        headers={"Idempotency-Key": idempotency_key},
        body={"tracking": optional(tracking)},
        idempotency_key=idempotency_key,
    )


def refund_order(
    order_id: str,
    *,
    amount: int | None = None,
    restock: bool | UnsetType = UNSET,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Refund]:
    """Refund an order, or part of it.

    For an order that was paid externally (`external`), this only records the refund.
    """
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/orders/{order_id}/refund", order_id),
        answers={200: (Refund,)},
        headers={"Idempotency-Key": idempotency_key},
        body={"amount": optional(amount), "restock": restock, "reason": optional(reason)},
        idempotency_key=idempotency_key,
    )


def credit_wallet(
    buyer_id: str, *, amount: int, currency: str, idempotency_key: str | None = None, cell: str | None = None
) -> Call[Balance]:
    """Add money to a buyer's wallet.

    Once per buyer and key. A retry returns the first result.
    """
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/wallets/{buyer_id}/credit", buyer_id),
        answers={200: (Balance,)},
        body={"amount": amount, "currency": currency, "idempotency_key": idempotency_key, "cell": optional(cell)},
        idempotency_key=idempotency_key,
    )


def get_wallet(buyer_id: str) -> Call[Wallet]:
    """A buyer's balances."""
    return Call(
        method="GET",
        path=path_of("/v1/wallets/{buyer_id}", buyer_id),
        answers={200: (Wallet,)},
    )
