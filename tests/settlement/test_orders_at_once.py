"""An order exists from the moment its payment begins: pending, then confirmed or cancelled, on every engine."""

import pytest
from msgspec.structs import replace
from settle_harness import PRICE, SALE, SKU, Providers, SettleHarness
from settle_money import REMOTE, note_method

from holdfast.domain.sale.sale import OrderStatus, order_id_of, order_number_of
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.refunds import RefundProblem, Wanted
from holdfast.ledger.sales.fulfilment import NotFulfilled, fulfil
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.sales.sales import find_order
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)

WALLET = replace(SALE, payment_attempts_max=3)


async def order_events(harness: SettleHarness) -> list[str]:
    return [row.type for row in await harness.rows(events) if row.type.startswith("order.")]


async def test_an_order_is_pending_from_the_start_and_confirmed_when_paid(harness: SettleHarness) -> None:
    await harness.open_sale(1)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    bought = await harness.buy("ada")
    [begun] = await harness.all_rows(orders)
    assert (begun.order_id, begun.status, begun.confirmed_at) == (order_id_of(bought), "pending", None)
    assert (begun.amount, begun.payment, begun.updated_at) == (PRICE, "wallet", begun.created_at)
    await harness.settle_all(harness.settler())
    [paid] = await harness.all_rows(orders)
    assert (paid.status, paid.created_at) == ("confirmed", begun.created_at)
    assert paid.confirmed_at == paid.updated_at >= begun.updated_at
    assert await order_events(harness) == ["order.pending", "order.confirmed"]


async def test_a_declined_payment_leaves_the_order_pending_until_the_reservation_ends(harness: SettleHarness) -> None:
    await harness.open_sale(1, WALLET)
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler())
    [order] = await harness.all_rows(orders)
    assert order.status == "pending"
    await harness.apply(SKU, Move(Transition.SETTLE, bought))
    await harness.drain()
    await harness.settle_all(harness.settler())
    await harness.apply(SKU, Move(Transition.CANCEL, bought))
    await harness.drain()
    [order] = await harness.all_rows(orders)
    assert (order.status, order.confirmed_at) == ("cancelled", None)
    assert await order_events(harness) == ["order.pending", "order.cancelled"]


async def test_an_order_is_cancelled_when_its_payment_fails_for_good(
    harness: SettleHarness, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_decline")
    await harness.settle_all(harness.settler(providers))
    [order] = await harness.all_rows(orders)
    assert (order.status, order.confirmed_at) == ("cancelled", None)
    refunder = Refunder(harness.database, providers)
    with pytest.raises(RefundProblem, match="Nothing was paid"):
        await refunder.request(Wanted(order.order_id, "k"))


async def test_only_a_paid_order_is_fulfilled_and_once(harness: SettleHarness) -> None:
    await harness.open_sale(1)
    bought = await harness.buy("ada")
    order_id = order_id_of(bought)

    async def send(tracking: str | None) -> object:
        return await harness.database.write(lambda c: fulfil(c, order_id, tracking, harness.database.now_ms(c)))

    with pytest.raises(NotFulfilled, match="pending"):
        await send("T1")
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    await harness.settle_all(harness.settler())
    sent = await send("T1")
    assert await send("T1") == sent
    with pytest.raises(NotFulfilled, match="fulfilled"):
        await send("T2")
    found = await harness.database.read(lambda c: find_order(c, order_id))
    assert found is not None
    assert (found.status, found.tracking, found.unit_price) == (OrderStatus.FULFILLED, "T1", PRICE)
    await Refunder(harness.database, {}).request(Wanted(order_id, "back"))
    [order] = await harness.all_rows(orders)
    assert (order.status, order.tracking) == ("refunded", "T1")
    assert await order_events(harness) == ["order.pending", "order.confirmed", "order.fulfilled", "order.refunded"]


async def test_orders_are_listed_by_status(harness: SettleHarness) -> None:
    await harness.open_sale(3)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    await harness.buy("ada")
    await harness.settle_all(harness.settler())
    waiting = new_reservation_id(SKU, "bob")
    await harness.buy_all([Reserve(waiting, "bob", 2, 2, settle=True)])

    async def listed(status: OrderStatus | None) -> list[str]:
        page, _ = await harness.database.read(lambda c: list_orders(c, limit=9, status=status))
        return sorted(order.buyer_id for order in page)

    assert await listed(None) == ["ada", "bob"]
    assert (await listed(OrderStatus.PENDING), await listed(OrderStatus.CONFIRMED)) == (["bob"], ["ada"])


def test_numbers_are_short_readable_and_differ() -> None:
    numbers = {order_number_of(new_reservation_id(SKU, f"buyer-{n}")) for n in range(2_000)}
    assert len(numbers) == 2_000
    assert {len(number) for number in numbers} == {14}
    assert not set("".join(numbers)) & set("ILOU")
    assert order_number_of("rsv_1") == order_number_of("rsv_1")
