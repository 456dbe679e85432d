"""The facts in the event of a declined payment."""

import msgspec
from msgspec import Struct


class DeclinedPayment(Struct, frozen=True):
    payment_key: str
    sale_id: str
    buyer_id: str
    amount: int
    currency: str
    attempt: int = 1
    reason: str | None = None


class _Facts(Struct, frozen=True):
    payments: list[DeclinedPayment] = []


_decode = msgspec.json.Decoder(_Facts).decode


def declined_payment(facts: str | None) -> DeclinedPayment | None:
    found = [] if facts is None else _decode(facts).payments
    return found[0] if found else None
