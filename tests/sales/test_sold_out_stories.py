"""How a sale went is told to a crowd: a ledger that is silent delays nobody."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import insert

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.replicas.reads import LedgerReads
from holdfast.ledger.tables.sales import orders
from holdfast.sales.sold_out import SoldOutStories

SALE = Sale(
    sale_id="drop", sku_id="sneaker", name="Tide", price_amount=4_999, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET,
)  # fmt: skip
PAID = {
    "order_id": "ord_1", "reservation_id": "rsv_1", "sale_id": "drop", "sku_id": "sneaker", "buyer_id": "ada",
    "quantity": 2, "amount": 9_998, "currency": "EUR", "payment": "wallet", "status": "confirmed", "created_at": 1,
    "updated_at": 1, "confirmed_at": 1,
}  # fmt: skip


class SilentReads(LedgerReads):
    """As of a database that hangs, until it answers again."""

    def __init__(self, primary: Database) -> None:
        super().__init__(primary)
        self.answers, self.answered, self.asked = asyncio.Event(), asyncio.Event(), 0

    async def read(self, work: Any, seen: str | None = None) -> Any:
        self.asked += 1
        await self.answers.wait()
        found = await super().read(work, seen)
        self.answered.set()
        return found


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_ledger_that_is_silent_is_asked_once_and_delays_nobody(database: Database) -> None:
    await database.write(lambda c: c.execute(insert(orders), [PAID]))
    reads = SilentReads(database)
    stories = SoldOutStories(reads)
    async with asyncio.timeout(30):
        assert await asyncio.gather(*[stories.find(SALE, 2) for _ in range(5)]) == [None] * 5
    assert reads.asked == 1
    reads.answers.set()
    await reads.answered.wait()
    story = await stories.find(SALE, 2)
    assert story is not None
    assert (story.units, reads.asked) == (2, 1)
