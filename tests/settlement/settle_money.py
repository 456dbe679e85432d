"""A sale that is paid through the sandbox, and the invariants of its money."""

from typing import Any

from settle_harness import PRICE, SKU, SettleHarness, other_sale
from settle_sandbox import Sandbox
from sqlalchemy import insert

from holdfast.domain.sale.sale import PaymentKind, payment_key_of
from holdfast.ledger.tables.money import payments, refunds
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools, reservations

REMOTE = other_sale(SKU, payment=PaymentKind.SANDBOX)


async def note_method(harness: SettleHarness, reservation_id: str, method: str, amount: int = PRICE) -> None:
    """As a buyer who chooses a card before the payment starts."""
    values = {
        "payment_key": payment_key_of(reservation_id),
        "reservation_id": reservation_id,
        "sale_id": REMOTE.sale_id,
        "buyer_id": "ada",
        "provider": "sandbox",
        "method": method,
        "amount": amount,
        "currency": "EUR",
        "state": "new",
        "created_at": 0,
        "updated_at": 0,
    }
    await harness.database.write(lambda c: c.execute(insert(payments), [values]))


async def check_money(harness: SettleHarness, sandbox: Sandbox) -> None:
    """I3 and I4, by the sandbox's own records: each charge once, and each an order or a refund."""
    books, ordered = sandbox.books(), {o.reservation_id for o in await harness.rows(orders)}
    owed = {r.payment_key for r in await harness.rows(refunds)}
    for payment in await harness.rows(payments):
        entry: dict[str, Any] = books.get(payment.payment_key, {"captures": 0, "state": None})
        assert entry["captures"] <= 1
        if entry["captures"]:
            assert (payment.reservation_id in ordered) != (payment.payment_key in owed), payment
        else:
            assert payment.reservation_id not in ordered
            assert entry["state"] != "authorised", f"money is still set aside for {payment.payment_key}"
    states = {r.reservation_id: r.status for r in await harness.rows(reservations)}
    assert all((states[id_] == "confirmed") == (id_ in ordered) for id_ in states)
    pool = await harness.one(pools)
    assert (pool.held, pool.sold) == (0, len(ordered))
