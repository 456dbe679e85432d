"""More sold than can be delivered: noticed without being asked, and treated as the sale wants it."""

import pytest
from settle_world import PRICE, SKU, SettleWorld, other_sale
from sqlalchemy import insert, update

from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import OrderStatus, OversellPolicy, order_id_of
from holdfast.ledger.sale_lists import list_orders
from holdfast.ledger.sale_tables import orders, sales, wallet_accounts
from holdfast.ledger.tables import events, pools

pytest_plugins = ("settle_fixtures",)


async def sold(world: SettleWorld, policy: OversellPolicy, *quantities: int, units: int = 9) -> list[str]:
    """A sale with an order of each of these quantities, oldest first."""
    await world.open_sale(units, other_sale(SKU, sale_id="drop", oversell_policy=policy))
    await world.wallet.credit("ada", 20 * PRICE, "EUR", "k")
    bought = []
    for quantity in quantities:
        bought.append(await world.buy("ada", quantity))
        await world.settle_all(world.settler())
    return [order_id_of(id_) for id_ in bought]


async def lower(world: SettleWorld, units: int | None) -> None:
    """What the ledger says can be delivered, as by somebody who said so and died before anything came of it."""
    await world.database.write(lambda c: c.execute(update(sales).values(deliverable_units=units)))


async def waiting(world: SettleWorld) -> dict[str, int]:
    return {row.order_id: row.units_to_source for row in await world.rows(orders) if row.units_to_source}


async def test_orders_beyond_what_there_is_are_flagged_until_there_is_enough(world: SettleWorld) -> None:
    ids, audit = await sold(world, OversellPolicy.FULFIL_FIRST, 1, 2, 1, 1), world.audit()
    await lower(world, 2)
    for _ in range(2):
        [finding] = (await audit.look()).findings
        assert (finding.finding, finding.subject, finding.is_mended) == ("oversold", "drop", False)
        assert "5 units are sold, 2 can be delivered" in finding.detail
        assert await waiting(world) == {ids[3]: 1, ids[2]: 1, ids[1]: 1}
    found, _ = await world.database.read(lambda c: list_orders(c, limit=9, to_source=True))
    assert [order.order_id for order in found] == [ids[3], ids[2], ids[1]]
    await lower(world, 4)
    await audit.look()
    assert await waiting(world) == {ids[3]: 1}
    await lower(world, None)
    assert (await audit.look()).is_ok
    assert await waiting(world) == {}
    told = [(e.subject, e.quantity) for e in await world.rows(events) if e.type == "pool.drift"]
    assert told == [("drop", 3), ("drop", 1), ("drop", 0)]
    assert {row.status for row in await world.rows(orders)} == {OrderStatus.CONFIRMED}


async def test_the_newest_orders_are_cancelled_only_where_that_was_asked_for(world: SettleWorld) -> None:
    ids, audit = await sold(world, OversellPolicy.CANCEL_LAST, 1, 1, 1), world.audit()
    await lower(world, 2)
    [finding] = (await audit.look()).findings
    assert (finding.finding, finding.is_mended) == ("oversold", True)
    assert ids[2] in finding.detail
    assert {row.order_id for row in await world.rows(orders) if row.status == "cancelled"} == {ids[2]}
    assert (await world.one(wallet_accounts)).balance == 18 * PRICE
    assert (await audit.look(thorough=True)).is_ok


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_sale_that_only_wants_to_know_is_only_told(world: SettleWorld) -> None:
    await sold(world, OversellPolicy.REPORT, 1, 1)
    await lower(world, 1)
    [finding] = (await world.audit().look()).findings
    assert (finding.finding, finding.is_mended, await waiting(world)) == ("oversold", False, {})


async def test_imported_orders_beyond_the_pool_are_found_by_counting(world: SettleWorld) -> None:
    """Orders that somebody wrote into the ledger, more than the pool ever had."""
    ids = await sold(world, OversellPolicy.FULFIL_FIRST, 1, units=2)
    row = dict((await world.one(orders))._mapping) | {"payment": "external", "quantity": 2, "amount": 2 * PRICE}
    id_ = new_reservation_id(SKU, "bob")
    imported = row | {"order_id": order_id_of(id_), "reservation_id": id_, "created_at": row["created_at"] + 1}
    await world.database.write(lambda c: c.execute(insert(orders), [imported]))
    [finding] = (await world.audit().look(thorough=True)).findings
    assert (finding.finding, "3 units are sold, 2 can be delivered" in finding.detail) == ("oversold", True)
    assert await waiting(world) == {order_id_of(id_): 1}
    # The auditor, which looks at what every test leaves, would name them.
    await world.database.write(lambda c: c.execute(orders.delete().where(orders.c.order_id == order_id_of(id_))))
    assert (await world.audit().look(thorough=True)).is_ok
    assert ids == [(await world.one(orders)).order_id]


async def test_what_is_free_beyond_it_leaves_the_pool_and_a_refunded_order_loses_its_flag(world: SettleWorld) -> None:
    ids = await sold(world, OversellPolicy.FULFIL_FIRST, 1, 2)
    done = await world.compensator().compensate("drop", 2)
    assert done is not None
    assert (done.cancelled, done.shortfall_units, done.to_source) == ([], 1, {ids[1]: 1})
    await world.drain()
    pool = await world.one(pools)
    assert (pool.total, pool.sold) == (3, 3)
    await world.database.write(lambda c: c.execute(update(orders).values(status="refunded", refunded_amount=PRICE)))
    await world.audit().look()
    assert await waiting(world) == {}
    await world.database.write(lambda c: c.execute(update(orders).values(status="confirmed", refunded_amount=0)))
    assert await world.compensator().compensate("nobody", 1) is None
