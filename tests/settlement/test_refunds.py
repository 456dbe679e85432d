"""Refunds: never more than was paid, once per key, and units back exactly once."""

import asyncio

import pytest
from settle_sandbox import Sandbox
from settle_world import PRICE, SALE, SKU, Providers, SettleWorld, other_sale

from holdfast.domain.command import Move, Provision, Transition
from holdfast.domain.pool import MAX_TOTAL_UNITS, Rules
from holdfast.domain.sale import OversellPolicy, PaymentKind, order_id_of, payment_key_of
from holdfast.ledger.refunds import RefundProblem, Wanted
from holdfast.ledger.sale_tables import orders, refunds, wallet_accounts, wallet_entries
from holdfast.ledger.tables import events, pools
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)


class CountingRestocker:
    """As the gate in Redis has to do it: once for each reference."""

    def __init__(self, world: SettleWorld) -> None:
        self._world, self.done = world, {}  # type: ignore[var-annotated]

    async def has_room(self, sku_id: str, units: int) -> bool:
        return True

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        self.done.setdefault(reference, units)


def refunder(world: SettleWorld, providers: Providers | None = None, **more: int) -> Refunder:
    restocker = CountingRestocker(world) if world.engine == "redis" else None
    return Refunder(world.database, providers or {}, restocker, **more)


async def paid(world: SettleWorld, quantity: int = 2) -> str:
    """The id of an order from a wallet."""
    await world.open_sale(5)
    await world.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    bought = await world.buy("ada", quantity)
    await world.settle_all(world.settler())
    return order_id_of(bought)


async def test_a_wallet_gets_its_money_back_at_once(world: SettleWorld) -> None:
    order_id = await paid(world)
    done = await refunder(world).request(Wanted(order_id, "r1"))
    assert (done.amount, done.state) == (2 * PRICE, "done")
    order = await world.one(orders)
    assert (order.status, order.refunded_amount) == ("refunded", 2 * PRICE)
    assert (await world.one(wallet_accounts)).balance == 10 * PRICE
    assert sum(e.amount for e in await world.rows(wallet_entries)) == 0
    [told] = [e for e in await world.rows(events) if e.type == "order.refunded"]
    assert told.subject == done.refund_id


async def test_parts_add_up_to_the_whole_and_no_further(world: SettleWorld) -> None:
    order_id = await paid(world)
    office = refunder(world)
    await office.request(Wanted(order_id, "r1", 500))
    await office.request(Wanted(order_id, "r2", 700))
    assert (await world.one(orders)).status == "confirmed"
    with pytest.raises(RefundProblem) as refused:
        await office.request(Wanted(order_id, "r3", 801))
    assert (refused.value.reason, refused.value.left) == ("refund_exceeds_order", 800)
    await office.request(Wanted(order_id, "r4"))
    order = await world.one(orders)
    assert (order.status, order.refunded_amount) == ("refunded", 2 * PRICE)
    with pytest.raises(RefundProblem):
        await office.request(Wanted(order_id, "r5"))


async def test_one_key_is_one_refund(world: SettleWorld) -> None:
    order_id = await paid(world)
    office = refunder(world)
    answers = await asyncio.gather(*[office.request(Wanted(order_id, "same", 300)) for _ in range(10)])
    assert len({answer.refund_id for answer in answers}) == 1
    assert (await world.one(refunds)).amount == (await world.one(orders)).refunded_amount == 300
    with pytest.raises(RefundProblem) as refused:
        await office.request(Wanted(order_id, "same", 301))
    assert refused.value.reason == "idempotency_key_reused"


async def test_a_key_is_for_what_was_asked_and_nothing_else(world: SettleWorld) -> None:
    order_id = await paid(world)
    office = refunder(world)
    first = await office.request(Wanted(order_id, "part", 300))
    assert await office.request(Wanted(order_id, "part", 300)) == first
    rest = await office.request(Wanted(order_id, "rest"))
    assert await office.request(Wanted(order_id, "rest")) == rest
    for reused in (
        Wanted(order_id, "part"),
        Wanted(order_id, "rest", rest.amount),
        Wanted(order_id, "rest", None, True),
    ):
        with pytest.raises(RefundProblem) as refused:
            await office.request(reused)
        assert refused.value.reason == "idempotency_key_reused"


async def test_what_was_free_can_be_returned_once(world: SettleWorld) -> None:
    await world.open_sale(5, other_sale(SKU, price_amount=0))
    bought = await world.buy("ada", 2)
    await world.settle_all(world.settler())
    office = refunder(world)
    done = await office.request(Wanted(order_id_of(bought), "r", restock=True))
    assert (done.amount, done.restock_units, done.state) == (0, 2, "done")
    assert (await world.one(orders)).status == "refunded"
    assert await office.request(Wanted(order_id_of(bought), "r", restock=True)) == done
    with pytest.raises(RefundProblem):
        await office.request(Wanted(order_id_of(bought), "again", restock=True))
    if world.engine != "redis":
        assert (await world.one(pools)).total == 7


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_units_that_the_pool_has_no_room_for_wait_for_a_person(world: SettleWorld) -> None:
    """Units come to a pool in Redis as a transfer, which the gate takes or leaves by itself."""
    order_id = await paid(world)
    await world.apply(SKU, Provision(MAX_TOTAL_UNITS, Rules()))
    asked = await refunder(world).request(Wanted(order_id, "r", restock=True))
    assert asked.state == "parked"
    assert (await world.one(orders)).refunded_amount == 0
    assert (await world.one(wallet_accounts)).balance == 8 * PRICE


async def test_refunds_at_once_never_exceed_the_order(world: SettleWorld) -> None:
    order_id = await paid(world)
    office = refunder(world)
    asked = [office.request(Wanted(order_id, f"r{n}", 700)) for n in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefundProblem) for answer in answers) == 6
    assert (await world.one(orders)).refunded_amount == 1_400


async def test_units_return_once_and_only_with_all_of_the_money(world: SettleWorld) -> None:
    order_id = await paid(world)
    office = refunder(world)
    with pytest.raises(RefundProblem) as refused:
        await office.request(Wanted(order_id, "r1", 5, restock=True))
    assert refused.value.reason == "restock_needs_full_refund"
    for _ in range(2):
        await office.request(Wanted(order_id, "r2", restock=True))
    assert (await world.one(refunds)).state == "done"
    if world.engine != "redis":
        assert (await world.one(pools)).total == 7
    else:
        assert list(office._restocker.done.values()) == [2]  # type: ignore[union-attr]


async def test_an_order_that_others_took_the_money_for_only_records_it(world: SettleWorld) -> None:
    await world.open_sale(2)
    bought = await world.buy("ada")
    await world.apply(SKU, Move(Transition.CONFIRM, bought))
    await world.drain()
    done = await refunder(world).request(Wanted(order_id_of(bought), "r"))
    assert done.state == "done"
    assert (await world.one(orders)).status == "refunded"
    assert await world.rows(wallet_entries) == []


async def remote_order(world: SettleWorld, providers: Providers) -> str:
    await world.open_sale(2, other_sale(SKU, payment=PaymentKind.SANDBOX))
    bought = await world.buy("ada")
    await world.settle_all(world.settler(providers))
    return bought


async def test_a_provider_that_answers_late_or_never_refunds_once(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await remote_order(world, providers)
    sandbox.faults(lost_reply=1)
    office = refunder(world, providers)
    asked = await office.request(Wanted(order_id_of(bought), "r"))
    assert asked.state == "waiting"
    sandbox.faults()
    async with asyncio.timeout(10):
        while (await world.one(refunds)).state != "done":
            await office.pass_once()
            await asyncio.sleep(0.02)
    entry = sandbox.books()[payment_key_of(bought)]
    assert (entry["refunded"], len(entry["refunds"])) == (PRICE, 1)
    assert (await world.one(orders)).status == "refunded"


async def test_a_refund_that_is_refused_is_parked(world: SettleWorld, sandbox: Sandbox, providers: Providers) -> None:
    bought = await remote_order(world, providers)
    key = payment_key_of(bought)
    body = {"payment_key": key, "key": "by-hand", "amount": PRICE}
    assert sandbox.client.post("/refund", json=body).status_code == 200
    asked = await refunder(world, providers).request(Wanted(order_id_of(bought), "r"))
    assert asked.state == "parked"
    assert (await world.one(orders)).refunded_amount == 0


@pytest.mark.parametrize("policy", list(OversellPolicy))
async def test_what_cannot_be_delivered_is_cancelled_or_reported(world: SettleWorld, policy: OversellPolicy) -> None:
    await world.open_sale(9, other_sale(SKU, sale_id="drop", oversell_policy=policy))
    await world.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    bought = []
    for quantity in (1, 2, 1, 1):
        bought.append(await world.buy("ada", quantity))
        await world.settle_all(world.settler())
    # A caller's own key of that name must not stand in for the refund that is owed.
    await refunder(world).request(Wanted(order_id_of(bought[3]), "compensation", 100))
    office = world.compensator()
    first = await office.compensate(SALE.sale_id, 2)
    again = await office.compensate(SALE.sale_id, 2)
    assert first is not None
    assert again is not None
    assert [o.refunded_amount for o in await world.rows(orders) if o.status == "cancelled"] == [
        o.amount for o in await world.rows(orders) if o.status == "cancelled"
    ]
    standing = [o.order_id for o in await world.rows(orders) if o.status == "confirmed"]
    if policy is not OversellPolicy.CANCEL_LAST:
        assert (first.cancelled, first.shortfall_units, len(standing)) == ([], 3, 4)
        return
    assert first.cancelled == [order_id_of(id_) for id_ in (bought[3], bought[2], bought[1])]
    assert (again.cancelled, again.shortfall_units) == ([], 0)
    assert standing == [order_id_of(bought[0])]
    assert (await world.one(wallet_accounts)).balance == 9 * PRICE
    assert (await office.compensate("no-such-sale", 0)) is None
    assert [e.type for e in await world.rows(events)].count("order.cancelled") == 3
