"""More sold than can be delivered: found by itself, and handled by the sale's policy."""

import pytest
from settle_harness import PRICE, SKU, SettleHarness, other_sale
from sqlalchemy import insert, update

from holdfast.domain.sale.sale import OrderStatus, OversellPolicy, order_id_of, order_number_of
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.sales import shortage
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.tables.money import wallet_accounts
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import events, pools

# As after a defect.
WRITES_BY_HAND = True

pytest_plugins = ("settle_fixtures",)


async def sold(
    harness: SettleHarness, policy: OversellPolicy, *quantities: int, units: int = 9, review: int = 100, spare: int = 0
) -> list[str]:
    """A sale with an order of each of these quantities, oldest first."""
    terms = other_sale(SKU, sale_id="drop", oversell_policy=policy, review_above_percent=review, buffer_units=spare)
    await harness.open_sale(units, terms)
    await harness.wallet.credit("ada", 20 * PRICE, "EUR", "k")
    bought = []
    for quantity in quantities:
        bought.append(await harness.buy("ada", quantity))
        await harness.settle_all(harness.settler())
    return [order_id_of(id_) for id_ in bought]


async def lower(harness: SettleHarness, units: int | None) -> None:
    """Declare what can be delivered, as by a process that crashed right after it."""
    await harness.database.write(lambda c: c.execute(update(sales).values(deliverable_units=units)))


async def waiting(harness: SettleHarness) -> dict[str, int]:
    return {row.order_id: row.units_to_source for row in await harness.rows(orders) if row.units_to_source}


async def test_undeliverable_orders_are_flagged_until_there_are_enough_units(harness: SettleHarness) -> None:
    ids, audit = await sold(harness, OversellPolicy.FULFIL_FIRST, 1, 2, 1, 1), harness.audit()
    await lower(harness, 2)
    for _ in range(2):
        [finding] = (await audit.look()).findings
        assert (finding.finding, finding.subject, finding.is_repaired) == ("oversold", "drop", False)
        assert "5 units are sold, 2 can be delivered" in finding.detail
        assert await waiting(harness) == {ids[3]: 1, ids[2]: 1, ids[1]: 1}
    found, _ = await harness.database.read(lambda c: list_orders(c, limit=9, to_source=True))
    assert [order.order_id for order in found] == [ids[3], ids[2], ids[1]]
    await lower(harness, 4)
    await audit.look()
    assert await waiting(harness) == {ids[3]: 1}
    await lower(harness, None)
    assert (await audit.look()).is_ok
    assert await waiting(harness) == {}
    told = [(e.subject, e.quantity) for e in await harness.rows(events) if e.type == "pool.drift"]
    assert told == [("drop", 3), ("drop", 1), ("drop", 0)]
    assert {row.status for row in await harness.rows(orders)} == {OrderStatus.CONFIRMED}


async def test_the_newest_orders_are_cancelled_only_with_cancel_last(harness: SettleHarness) -> None:
    ids, audit = await sold(harness, OversellPolicy.CANCEL_LAST, 1, 1, 1), harness.audit()
    await lower(harness, 2)
    [finding] = (await audit.look()).findings
    assert (finding.finding, finding.is_repaired) == ("oversold", True)
    assert ids[2] in finding.detail
    assert {row.order_id for row in await harness.rows(orders) if row.status == "cancelled"} == {ids[2]}
    assert (await harness.one(wallet_accounts)).balance == 18 * PRICE
    assert (await audit.look(thorough=True)).is_ok


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_an_oversell_above_the_limit_is_cancelled_only_once_it_is_approved(harness: SettleHarness) -> None:
    """One of three is a third of what was sold."""
    ids, audit = await sold(harness, OversellPolicy.CANCEL_LAST, 1, 1, 1, review=33), harness.audit()
    await lower(harness, 2)
    for _ in range(2):
        [finding] = (await audit.look(thorough=True)).findings
        assert (finding.is_repaired, "has to approve" in finding.detail) == (False, True)
    declared = await harness.compensator().compensate("drop", 2)
    assert declared is not None
    assert (declared.cancelled, declared.needs_review, declared.shortfall_units) == ([], True, 1)
    assert {row.status for row in await harness.rows(orders)} == {OrderStatus.CONFIRMED}
    approved = await harness.compensator().compensate("drop", 2, is_approved=True)
    assert approved is not None
    assert (approved.cancelled, approved.needs_review, approved.shortfall_units) == ([ids[2]], False, 0)
    assert (await audit.look(thorough=True)).is_ok


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_fulfil_first_uses_the_buffer_before_it_flags(harness: SettleHarness) -> None:
    ids = await sold(harness, OversellPolicy.FULFIL_FIRST, 1, 1, 1, spare=1)
    await lower(harness, 2)
    assert (await harness.audit().look()).is_ok
    assert await waiting(harness) == {}
    await lower(harness, 1)
    await harness.audit().look()
    assert await waiting(harness) == {ids[2]: 1}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_the_report_policy_changes_nothing(harness: SettleHarness) -> None:
    await sold(harness, OversellPolicy.REPORT, 1, 1)
    await lower(harness, 1)
    [finding] = (await harness.audit().look()).findings
    assert (finding.finding, finding.is_repaired, await waiting(harness)) == ("oversold", False, {})


async def test_imported_orders_beyond_the_pool_are_found_by_counting(harness: SettleHarness) -> None:
    """Orders imported into the ledger, more than the pool ever had."""
    ids = await sold(harness, OversellPolicy.FULFIL_FIRST, 1, units=2)
    row = dict((await harness.one(orders))._mapping) | {"payment": "external", "quantity": 2, "amount": 2 * PRICE}
    id_ = new_reservation_id(SKU, "bob")
    own = {"order_id": order_id_of(id_), "reservation_id": id_, "number": order_number_of(id_)}
    imported = row | own | {"created_at": row["created_at"] + 1}
    await harness.database.write(lambda c: c.execute(insert(orders), [imported]))
    [finding] = (await harness.audit().look(thorough=True)).findings
    assert (finding.finding, "3 units are sold, 2 can be delivered" in finding.detail) == ("oversold", True)
    assert await waiting(harness) == {order_id_of(id_): 1}
    # The auditor, which looks at what every test leaves, would name them.
    await harness.database.write(lambda c: c.execute(orders.delete().where(orders.c.order_id == order_id_of(id_))))
    assert (await harness.audit().look(thorough=True)).is_ok
    assert ids == [(await harness.one(orders)).order_id]


async def test_undeliverable_free_units_leave_the_pool_and_a_refund_removes_the_flag(harness: SettleHarness) -> None:
    ids = await sold(harness, OversellPolicy.FULFIL_FIRST, 1, 2)
    done = await harness.compensator().compensate("drop", 2)
    assert done is not None
    assert (done.cancelled, done.shortfall_units, done.to_source) == ([], 1, {ids[1]: 1})
    await harness.drain()
    pool = await harness.one(pools)
    assert (pool.total, pool.sold) == (3, 3)
    await harness.database.write(lambda c: c.execute(update(orders).values(status="refunded", refunded_amount=PRICE)))
    await harness.audit().look()
    assert await waiting(harness) == {}
    await harness.database.write(lambda c: c.execute(update(orders).values(status="confirmed", refunded_amount=0)))
    assert await harness.compensator().compensate("nobody", 1) is None


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_concurrent_compensation_cancels_no_order_too_many(harness: SettleHarness) -> None:
    """Two servers find a sale short at the same moment; the second acts when the first is done."""
    ids = await sold(harness, OversellPolicy.CANCEL_LAST, 1, 1, 1, 1)
    await lower(harness, 3)
    [found] = await harness.database.read(shortage.declared)
    assert (await harness.compensator().look(is_full=False))[0].cancelled == [ids[3]]
    late = await harness.compensator()._act(found)
    assert (late.cancelled, late.shortfall_units) == ([], 0)
    assert {row.order_id for row in await harness.rows(orders) if row.status == "confirmed"} == set(ids[:3])
