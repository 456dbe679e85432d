"""Settling what intents name: each purchase once, and a hot product does not delay the others."""

import asyncio
from typing import Any

from settle_harness import PRICE, SKU, Providers, SettleHarness, other_sale

from holdfast.domain.sale.sale import PaymentKind
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.sales import orders
from holdfast.payments.port import Charge, Payment, PaymentState
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.purchases import Purchases

pytest_plugins = ("settle_fixtures",)


def purchases_of(harness: SettleHarness, providers: Providers | None = None, parallel: int = 64) -> Purchases:
    posting = harness.posting()
    interpreter = Interpreter(harness.database, harness.gate, posting, providers or {})
    limits: dict[str, Any] = {"rate_per_second": 5_000, "parallel": parallel, "lease_ms": 30_000}
    return Purchases(harness.database, posting, interpreter, **limits)


async def sold(harness: SettleHarness, *buyers: str) -> list[str]:
    await harness.open_sale(100)
    for buyer in buyers:
        await harness.wallet.credit(buyer, 10 * PRICE, "EUR", "k")
    return [await harness.buy(buyer) for buyer in buyers]


async def test_the_purchase_that_is_named_is_settled_and_no_other(harness: SettleHarness) -> None:
    [first, second] = await sold(harness, "ann", "bob")
    purchases = purchases_of(harness)
    await purchases.settle(SKU, first)
    await harness.drain()
    assert [order.reservation_id for order in await harness.rows(orders)] == [first]
    await purchases.settle(SKU, second)
    await harness.drain()
    assert {order.reservation_id for order in await harness.rows(orders)} == {first, second}


async def test_an_intent_that_comes_again_or_to_two_workers_settles_nothing_twice(harness: SettleHarness) -> None:
    ids = await sold(harness, *[f"buyer-{number}" for number in range(20)])
    workers = [purchases_of(harness) for _ in range(3)]
    await asyncio.gather(*[worker.settle(SKU, id_) for worker in workers for id_ in [*ids, *ids]])
    await harness.drain()
    assert sorted(order.reservation_id for order in await harness.rows(orders)) == sorted(ids)
    assert {row.state for row in await harness.rows(settlements)} <= {"done", "notifying"}
    await harness.settle_all(harness.settler())


async def test_an_intent_that_names_nothing_is_ignored(harness: SettleHarness) -> None:
    await sold(harness)
    await purchases_of(harness).settle(SKU, "rsv_nothing")
    assert await harness.rows(orders) == []


async def test_what_no_intent_named_is_found_by_the_settler_after_a_while(harness: SettleHarness) -> None:
    [id_] = await sold(harness, "ann")
    patient = harness.settler(grace_ms=3_600_000)
    await patient.settle_all()
    assert await harness.rows(orders) == [], "left to the consumers"
    await harness.make_due()
    await harness.settle_all(patient)
    assert [order.reservation_id for order in await harness.rows(orders)] == [id_]


class Slow:
    """A provider that answers for one product only when it is told to."""

    def __init__(self, slow: str) -> None:
        self.slow, self.asked, self.answers, self.most = slow, asyncio.Event(), asyncio.Event(), 0
        self._waiting = 0

    async def authorise(self, charge: Charge) -> Payment:
        if charge.reservation_id.endswith(self.slow):
            self.asked.set()
            self._waiting += 1
            self.most = max(self.most, self._waiting)
            await self.answers.wait()
        return Payment(charge.key, PaymentState.AUTHORISED, f"ref-{charge.key}", amount=charge.amount)

    async def capture(self, payment: Payment) -> Payment:
        return Payment(payment.key, PaymentState.CAPTURED, payment.reference, amount=payment.amount)


async def test_a_hot_product_whose_provider_hangs_does_not_delay_another(harness: SettleHarness) -> None:
    if harness.engine == "redis":
        return  # The gate plays no part in it.
    hot, cold = other_sale("hot", payment=PaymentKind.SANDBOX), other_sale("cold", payment=PaymentKind.SANDBOX)
    for sale in (hot, cold):
        await harness.open_sale(100, sale)
    crowd = [await harness.buy(f"buyer-{number}", sku_id="hot") for number in range(20)]
    lone = await harness.buy("ann", sku_id="cold")
    provider, parallel = Slow("hot"), 8
    purchases = purchases_of(harness, {"sandbox": provider}, parallel)  # type: ignore[dict-item]
    waiting = [asyncio.create_task(purchases.settle("hot", id_)) for id_ in crowd]
    async with asyncio.timeout(30):
        await provider.asked.wait()
        await purchases.settle("cold", lone)
        assert lone in [order.reservation_id for order in await harness.rows(orders)]
        assert not any(task.done() for task in waiting)
        assert 0 < provider.most < parallel, "some places are left for others"
        provider.answers.set()
        await asyncio.gather(*waiting)
    assert len(await harness.rows(orders)) == 21
