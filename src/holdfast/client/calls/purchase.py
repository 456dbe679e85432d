# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `purchase`."""

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, new_key, optional, path_of
from holdfast.client.types.purchase import Purchase, Quote


def purchase(
    sale_id: str,
    *,
    quantity: int,
    min_quantity: int | None = None,
    payment_method: str | None = None,
    proof: str | None = None,
    quote_id: str | None = None,
    idempotency_key: str | None = None,
    pass_: str | None = None,
) -> Call[Purchase]:
    """Reserve units, or pay for them at once.

    For buyers. Where checkout is instant, the payment begins at once.
    """
    idempotency_key = idempotency_key or new_key()
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/purchase", sale_id),
        answers={201: (Purchase,), 200: (Purchase,)},
        headers={"Idempotency-Key": idempotency_key, "Holdfast-Pass": pass_},
        body={
            "quantity": quantity,
            "min_quantity": optional(min_quantity),
            "payment_method": optional(payment_method),
            "proof": optional(proof),
            "quote_id": optional(quote_id),
        },
        idempotency_key=idempotency_key,
    )


def quote(sale_id: str, *, quantity: int | UnsetType = UNSET, currency: str | None = None) -> Call[Quote]:
    """Fix what a purchase will cost.

    For buyers. The purchase that names the quote is settled at this amount, whatever the rate is then. A quote is
    valid for one purchase, for two minutes.
    """
    return Call(
        method="POST",
        path=path_of("/v1/sales/{sale_id}/quote", sale_id),
        answers={201: (Quote,)},
        body={"quantity": quantity, "currency": optional(currency)},
    )
