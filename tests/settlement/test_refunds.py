"""Refunds: never more than was paid, once per key, and units back exactly once."""

import asyncio

import pytest
from settle_harness import PRICE, SALE, SKU, Providers, SettleHarness, other_sale
from settle_sandbox import Sandbox

from holdfast.domain.sale.sale import OversellPolicy, PaymentKind, order_id_of, payment_key_of
from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.pool import Rules
from holdfast.ledger.money.refunds import RefundProblem, Wanted
from holdfast.ledger.tables.money import refunds, wallet_accounts, wallet_entries
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, pools
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)


class CountingRestocker:
    """As the Redis gate does it: once per reference."""

    def __init__(self, harness: SettleHarness) -> None:
        self._world, self.done = harness, {}  # type: ignore[var-annotated]

    async def has_room(self, sku_id: str, units: int) -> bool:
        return True

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        self.done.setdefault(reference, units)


def make_refunder(harness: SettleHarness, providers: Providers | None = None, **more: int) -> Refunder:
    restocker = CountingRestocker(harness) if harness.engine == "redis" else None
    return Refunder(harness.database, providers or {}, restocker, **more)


async def paid(harness: SettleHarness, quantity: int = 2) -> str:
    """The id of an order from a wallet."""
    await harness.open_sale(5)
    await harness.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    bought = await harness.buy("ada", quantity)
    await harness.settle_all(harness.settler())
    return order_id_of(bought)


async def test_a_wallet_gets_its_money_back_at_once(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    done = await make_refunder(harness).request(Wanted(order_id, "r1"))
    assert (done.amount, done.state) == (2 * PRICE, "done")
    order = await harness.one(orders)
    assert (order.status, order.refunded_amount) == ("refunded", 2 * PRICE)
    assert (await harness.one(wallet_accounts)).balance == 10 * PRICE
    assert sum(e.amount for e in await harness.rows(wallet_entries)) == 0
    [told] = [e for e in await harness.rows(events) if e.type == "order.refunded"]
    assert told.subject == done.refund_id


async def test_partial_refunds_never_exceed_the_order(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    refunder = make_refunder(harness)
    await refunder.request(Wanted(order_id, "r1", 500))
    await refunder.request(Wanted(order_id, "r2", 700))
    assert (await harness.one(orders)).status == "confirmed"
    with pytest.raises(RefundProblem) as refused:
        await refunder.request(Wanted(order_id, "r3", 801))
    assert (refused.value.reason, refused.value.left) == ("refund_exceeds_order", 800)
    await refunder.request(Wanted(order_id, "r4"))
    order = await harness.one(orders)
    assert (order.status, order.refunded_amount) == ("refunded", 2 * PRICE)
    with pytest.raises(RefundProblem):
        await refunder.request(Wanted(order_id, "r5"))


async def test_one_key_is_one_refund(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    refunder = make_refunder(harness)
    answers = await asyncio.gather(*[refunder.request(Wanted(order_id, "same", 300)) for _ in range(10)])
    assert len({answer.refund_id for answer in answers}) == 1
    assert (await harness.one(refunds)).amount == (await harness.one(orders)).refunded_amount == 300
    with pytest.raises(RefundProblem) as refused:
        await refunder.request(Wanted(order_id, "same", 301))
    assert refused.value.reason == "idempotency_key_reused"


async def test_a_key_is_for_one_request_only(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    refunder = make_refunder(harness)
    first = await refunder.request(Wanted(order_id, "part", 300))
    assert await refunder.request(Wanted(order_id, "part", 300)) == first
    rest = await refunder.request(Wanted(order_id, "rest"))
    assert await refunder.request(Wanted(order_id, "rest")) == rest
    for reused in (
        Wanted(order_id, "part"),
        Wanted(order_id, "rest", rest.amount),
        Wanted(order_id, "rest", None, True),
    ):
        with pytest.raises(RefundProblem) as refused:
            await refunder.request(reused)
        assert refused.value.reason == "idempotency_key_reused"


async def test_a_free_order_can_be_refunded_once(harness: SettleHarness) -> None:
    await harness.open_sale(5, other_sale(SKU, price_amount=0))
    bought = await harness.buy("ada", 2)
    await harness.settle_all(harness.settler())
    refunder = make_refunder(harness)
    done = await refunder.request(Wanted(order_id_of(bought), "r", restock=True))
    assert (done.amount, done.restock_units, done.state) == (0, 2, "done")
    assert (await harness.one(orders)).status == "refunded"
    assert await refunder.request(Wanted(order_id_of(bought), "r", restock=True)) == done
    with pytest.raises(RefundProblem):
        await refunder.request(Wanted(order_id_of(bought), "again", restock=True))
    if harness.engine != "redis":
        assert (await harness.one(pools)).total == 7


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_units_beyond_the_maximum_pool_size_are_parked(harness: SettleHarness) -> None:
    """Units come to a pool in Redis as a transfer, which the gate accepts or refuses."""
    order_id = await paid(harness)
    await harness.apply(SKU, Provision(MAX_TOTAL_UNITS, Rules()))
    asked = await make_refunder(harness).request(Wanted(order_id, "r", restock=True))
    assert asked.state == "parked"
    assert (await harness.one(orders)).refunded_amount == 0
    assert (await harness.one(wallet_accounts)).balance == 8 * PRICE


async def test_concurrent_refunds_never_exceed_the_order(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    refunder = make_refunder(harness)
    asked = [refunder.request(Wanted(order_id, f"r{n}", 700)) for n in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefundProblem) for answer in answers) == 6
    assert (await harness.one(orders)).refunded_amount == 1_400


async def test_units_return_once_and_only_with_a_full_refund(harness: SettleHarness) -> None:
    order_id = await paid(harness)
    refunder = make_refunder(harness)
    with pytest.raises(RefundProblem) as refused:
        await refunder.request(Wanted(order_id, "r1", 5, restock=True))
    assert refused.value.reason == "restock_needs_full_refund"
    for _ in range(2):
        await refunder.request(Wanted(order_id, "r2", restock=True))
    assert (await harness.one(refunds)).state == "done"
    if harness.engine != "redis":
        assert (await harness.one(pools)).total == 7
    else:
        assert list(refunder._restocker.done.values()) == [2]  # type: ignore[union-attr]


async def confirmed_directly(harness: SettleHarness, payment: PaymentKind) -> str:
    await harness.open_sale(2, other_sale(SKU, payment=payment))
    bought = await harness.buy("ada")
    await harness.apply(SKU, Move(Transition.CONFIRM, bought))
    await harness.drain()
    return order_id_of(bought)


async def test_the_refund_of_an_external_order_is_only_recorded(harness: SettleHarness) -> None:
    order_id = await confirmed_directly(harness, PaymentKind.EXTERNAL)
    done = await make_refunder(harness).request(Wanted(order_id, "r"))
    assert done.state == "done"
    assert (await harness.one(orders)).status == "refunded"
    assert await harness.rows(wallet_entries) == []


@pytest.mark.parametrize("payment", [PaymentKind.WALLET, PaymentKind.SANDBOX])
async def test_the_refund_of_an_order_that_nobody_paid_is_parked(harness: SettleHarness, payment: PaymentKind) -> None:
    order_id = await confirmed_directly(harness, payment)
    parked = await make_refunder(harness).request(Wanted(order_id, "r"))
    assert parked.state == "parked"
    assert "no payment to refund" in (await harness.one(refunds)).reason
    order = await harness.one(orders)
    assert (order.status, order.refunded_amount, await harness.rows(wallet_entries)) == ("confirmed", 0, [])


async def remote_order(harness: SettleHarness, providers: Providers) -> str:
    await harness.open_sale(2, other_sale(SKU, payment=PaymentKind.SANDBOX))
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    return bought


async def test_a_provider_that_answers_late_or_never_refunds_once(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await remote_order(harness, providers)
    sandbox.faults(lost_reply=1)
    refunder = make_refunder(harness, providers)
    asked = await refunder.request(Wanted(order_id_of(bought), "r"))
    assert asked.state == "waiting"
    sandbox.faults()
    await harness.make_due()
    await refunder.pass_once()
    assert (await harness.one(refunds)).state == "done"
    entry = sandbox.books()[payment_key_of(bought)]
    assert (entry["refunded"], len(entry["refunds"])) == (PRICE, 1)
    assert (await harness.one(orders)).status == "refunded"


async def test_a_refund_that_is_refused_is_parked(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await remote_order(harness, providers)
    key = payment_key_of(bought)
    body = {"payment_key": key, "key": "by-hand", "amount": PRICE}
    assert sandbox.client.post("/refund", json=body).status_code == 200
    asked = await make_refunder(harness, providers).request(Wanted(order_id_of(bought), "r"))
    assert asked.state == "parked"
    assert (await harness.one(orders)).refunded_amount == 0


@pytest.mark.parametrize("policy", list(OversellPolicy))
async def test_undeliverable_orders_are_cancelled_or_reported(harness: SettleHarness, policy: OversellPolicy) -> None:
    await harness.open_sale(9, other_sale(SKU, sale_id="drop", oversell_policy=policy))
    await harness.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    bought = []
    for quantity in (1, 2, 1, 1):
        bought.append(await harness.buy("ada", quantity))
        await harness.settle_all(harness.settler())
    # A caller's own key of that name must not stand in for the refund that is owed.
    await make_refunder(harness).request(Wanted(order_id_of(bought[3]), "compensation", 100))
    refunder = harness.compensator()
    first = await refunder.compensate(SALE.sale_id, 2, is_approved=True)
    again = await refunder.compensate(SALE.sale_id, 2)
    assert first is not None
    assert again is not None
    assert [o.refunded_amount for o in await harness.rows(orders) if o.status == "cancelled"] == [
        o.amount for o in await harness.rows(orders) if o.status == "cancelled"
    ]
    standing = [o.order_id for o in await harness.rows(orders) if o.status == "confirmed"]
    if policy is not OversellPolicy.CANCEL_LAST:
        assert (first.cancelled, first.shortfall_units, len(standing)) == ([], 3, 4)
        return
    assert first.cancelled == [order_id_of(id_) for id_ in (bought[3], bought[2], bought[1])]
    assert (again.cancelled, again.shortfall_units) == ([], 0)
    assert standing == [order_id_of(bought[0])]
    assert (await harness.one(wallet_accounts)).balance == 9 * PRICE
    assert (await refunder.compensate("no-such-sale", 0)) is None
    assert [e.type for e in await harness.rows(events)].count("order.cancelled") == 3
