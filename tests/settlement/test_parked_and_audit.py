"""What waits for a person, and money that belongs to nothing: found, and mended where that is safe."""

import pytest
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from settle_world import SKU, Providers, SettleWorld
from sqlalchemy import insert, update

from holdfast.domain.command import Move, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import order_id_of, payment_key_of
from holdfast.ledger.refunds import Wanted
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.ledger.tables import events, pools, reservations
from holdfast.payments.port import Charge
from holdfast.settlement.parked import DropRefused, NotParked, Parked
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)


async def parked_with(world: SettleWorld, sandbox: Sandbox, providers: Providers, method: str) -> str:
    """A reservation whose payment was tried once, with this fault, and then parked."""
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, method)
    await world.settler(providers, attempts_max=1).settle_all()
    assert (await world.one(settlements)).state == "parked"
    sandbox.faults()
    return bought


def desk_of(world: SettleWorld, providers: Providers) -> Parked:
    return Parked(world.database, world.settler(providers), providers)


async def test_parked_items_say_what_happened_and_can_be_tried_again(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await parked_with(world, sandbox, providers, "pm_error")
    office = desk_of(world, providers)
    [item], _ = await office.items()
    assert (item.parked_id, item.kind, item.attempts) == (f"settlement:{bought}", "settlement", 1)
    assert [tried["step"] for tried in item.history] == ["authorise"]
    await office.retry(item.parked_id)
    await world.settle_all(world.settler(providers))
    assert await office.items() == ([], False)
    with pytest.raises(NotParked):
        await office.retry(item.parked_id)
    await check_money(world, sandbox)


@pytest.mark.parametrize("method", ["pm_error", "pm_lost_reply"])
async def test_a_drop_lets_the_money_go_before_the_units(
    world: SettleWorld, sandbox: Sandbox, providers: Providers, method: str
) -> None:
    bought = await parked_with(world, sandbox, providers, method)
    await desk_of(world, providers).drop(f"settlement:{bought}")
    await world.drain()
    assert (await world.one(reservations)).status == "failed"
    assert (await world.one(pools)).held == 0
    await world.settle_all(world.settler(providers))
    assert (await world.one(settlements)).state == "done"
    await check_money(world, sandbox)


async def test_a_drop_is_refused_while_money_is_out(world: SettleWorld, sandbox: Sandbox, providers: Providers) -> None:
    bought = await parked_with(world, sandbox, providers, "pm_lost_reply_capture")
    office = desk_of(world, providers)
    with pytest.raises(DropRefused, match="captured"):
        await office.drop(f"settlement:{bought}")
    sandbox.faults(down_ms=3_600_000)
    with pytest.raises(DropRefused, match="Nobody can say"):
        await office.drop(f"settlement:{bought}")
    sandbox.faults()
    assert (await world.one(settlements)).state == "parked"
    await office.retry(f"settlement:{bought}")
    await world.settle_all(world.settler(providers))
    await check_money(world, sandbox)


async def test_a_drop_is_refused_if_the_money_came_from_another_reservation(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    """As after a late success: the payment has the key of the reservation that it was taken for first."""
    bought = await parked_with(world, sandbox, providers, "pm_error")
    moved = {"payment_key": payment_key_of(new_reservation_id(SKU, "ada")), "state": "captured"}
    await world.database.write(lambda c: c.execute(update(payments).values(**moved)))
    with pytest.raises(DropRefused, match="taken"):
        await desk_of(world, providers).drop(f"settlement:{bought}")
    await desk_of(world, providers).retry(f"settlement:{bought}")
    await world.settle_all(world.settler(providers))
    assert (await world.one(orders)).reservation_id == bought


async def test_a_refund_that_went_back_unheard_cannot_be_dropped(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await world.settle_all(world.settler(providers))
    office, parked = Refunder(world.database, providers, attempts_max=1), desk_of(world, providers)
    sandbox.faults(lost_reply=1.0)
    asked = await office.request(Wanted(order_id_of(bought), "r", 400))
    assert asked.state == "parked"
    sandbox.faults(down_ms=3_600_000)
    with pytest.raises(DropRefused, match="Nobody can say"):
        await parked.drop(f"refund:{asked.refund_id}")
    sandbox.faults()
    with pytest.raises(DropRefused, match="400 went back"):
        await parked.drop(f"refund:{asked.refund_id}")
    await parked.retry(f"refund:{asked.refund_id}")
    await office.pass_once()
    assert sandbox.books()[payment_key_of(bought)]["refunded"] == (await world.one(orders)).refunded_amount == 400


async def test_a_refund_that_did_not_go_back_is_dropped_while_its_order_stands(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await world.settle_all(world.settler(providers))
    office, parked = Refunder(world.database, providers, attempts_max=1), desk_of(world, providers)
    sandbox.faults(error=1.0)
    asked = await office.request(Wanted(order_id_of(bought), "r", 400))
    sandbox.faults()
    await parked.drop(f"refund:{asked.refund_id}")
    for gone in (f"refund:{asked.refund_id}", "refund:rfd_nobody"):
        with pytest.raises(NotParked):
            await parked.drop(gone)
    assert (await office.request(Wanted(order_id_of(bought), "again"))).state == "done"
    assert sandbox.books()[payment_key_of(bought)]["refunded"] == (await world.one(orders)).refunded_amount


async def test_a_charge_without_an_order_becomes_one(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    """As if a defect, or somebody with a database console, had lost the order."""
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply_capture")
    await world.settler(providers).settle_all()
    await world.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    await world.database.write(lambda c: c.execute(update(payments).values(state="captured")))
    settler = world.settler(providers)
    audit = world.audit(settler, providers)
    report = await audit.look()
    assert [(f.finding, f.subject, f.is_mended) for f in report.findings] == [
        ("payment_without_order", payment_key_of(bought), True)
    ]
    await world.settle_all(settler)
    await check_money(world, sandbox)
    assert (await audit.look(thorough=True)).is_ok


async def test_money_left_set_aside_is_let_go(world: SettleWorld, sandbox: Sandbox, providers: Providers) -> None:
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply")
    await world.settler(providers).settle_all()
    await world.apply(SKU, Move(Transition.FAIL, bought))
    await world.drain()
    await world.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    settler = world.settler(providers)
    [finding] = (await world.audit(settler, providers).look()).findings
    assert (finding.finding, finding.is_mended) == ("payment_left_open", True)
    await world.settle_all(settler)
    assert sandbox.books()[payment_key_of(bought)]["state"] == "voided"


async def test_a_success_after_the_end_is_found_and_walks_the_ladder(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    """Declined, so the units went back; then the provider says that it has the money after all."""
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    key = payment_key_of(bought)
    values = {
        "payment_key": key, "reservation_id": bought, "sale_id": REMOTE.sale_id, "buyer_id": "ada",
        "provider": "sandbox", "amount": 1_000, "currency": "EUR", "state": "declined", "created_at": 0,
        "updated_at": 0,
    }  # fmt: skip
    await world.database.write(lambda c: c.execute(insert(payments), [values]))
    settler = world.settler(providers)
    await world.settle_all(settler)
    assert (await world.one(reservations)).status == "failed"
    provider = providers["sandbox"]
    await provider.capture(await provider.authorise(Charge(key, 1_000, "EUR", "ada", bought, REMOTE.sale_id)))
    audit = world.audit(settler, providers)
    for _ in range(2):
        assert await audit.hint(key)
    assert not await audit.hint("pay_nobody")
    await world.settle_all(settler)
    await world.settle_all(settler)
    [order] = await world.rows(orders)
    assert order.buyer_id == "ada"
    assert await world.rows(refunds) == []
    assert [e.type for e in await world.rows(events)].count("order.confirmed") == 1
    await check_money(world, sandbox)
