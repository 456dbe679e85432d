"""Orders paid through the sandbox, with everything going wrong that can: never twice, and nothing kept for nothing."""

import asyncio

import pytest
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from settle_world import PRICE, SKU, Providers, SettleWorld
from sqlalchemy import update

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import PaymentKind, payment_key_of
from holdfast.domain.settling import reacquired_id
from holdfast.ledger.payment_notes import note_method as note_asked
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.ledger.tables import reservations
from holdfast.payments.port import Charge

pytest_plugins = ("settle_fixtures",)


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("pm_ok", "confirmed"),
        ("pm_decline", "failed"),
        ("pm_lost_reply", "confirmed"),
        ("pm_lost_reply_capture", "confirmed"),
        ("pm_error", "confirmed"),
        ("pm_error_capture", "confirmed"),
        ("pm_pending", "confirmed"),
    ],
)
async def test_each_fault_ends_well(
    world: SettleWorld, sandbox: Sandbox, providers: Providers, method: str, status: str
) -> None:
    sandbox.faults(pending_ms=50)
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, method)
    await world.settle_all(world.settler(providers))
    assert (await world.one(reservations)).status == status
    await check_money(world, sandbox)


async def test_a_part_that_was_granted_is_charged_as_a_part(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    """Three were asked for, with a card, and one was left."""
    await world.open_sale(1, REMOTE)
    bought = new_reservation_id(SKU, "ada")
    await world.database.write(lambda c: note_asked(c, REMOTE, bought, "ada", 3, "pm_ok", 1))
    await world.buy_all([Reserve(bought, "ada", 3, 1, settle=True)])
    await world.settle_all(world.settler(providers))
    assert (await world.one(payments)).amount == (await world.one(orders)).amount == PRICE
    assert sandbox.books()[payment_key_of(bought)]["amount"] == PRICE
    await check_money(world, sandbox)


async def test_a_crowd_meets_every_fault_at_once(
    world: SettleWorld, sandbox: Sandbox, providers: Providers, seed: int
) -> None:
    sandbox.faults(
        seed=seed, decline=0.1, lost_reply=0.1, error=0.1, pending=0.05, pending_ms=20, slow=0.05, slow_ms=50
    )
    await world.open_sale(100, REMOTE)
    await world.buy_all([Reserve(new_reservation_id(SKU, f"b{n}"), f"b{n}", 1, 1, settle=True) for n in range(100)])
    await asyncio.gather(*[world.settle_all(world.settler(providers, attempts_max=40)) for _ in range(2)])
    sandbox.faults()
    await check_money(world, sandbox)
    assert len(await world.rows(orders)) > 70


async def test_the_unit_stays_claimed_while_the_outcome_is_unknown(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply_capture")
    await world.settler(providers).settle_all()
    assert (await world.one(payments)).state == "claimed"
    assert (await world.one(reservations)).status == "settling"
    assert (await world.one(settlements)).state == "waiting"
    assert sandbox.books()[payment_key_of(bought)]["captures"] == 1
    await world.settle_all(world.settler(providers))
    assert (await world.one(orders)).reservation_id == bought
    await check_money(world, sandbox)


async def test_who_cannot_be_reached_is_parked_and_goes_on_when_asked_again(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await world.open_sale(1, REMOTE)
    await world.buy("ada")
    sandbox.faults(down_ms=3_600_000)
    await world.settle_all(world.settler(providers, attempts_max=3))
    row = await world.one(settlements)
    assert (row.state, row.attempts) == ("parked", 3)
    assert "down" in row.reason
    assert row.history.count('"step"') == 3
    assert (await world.one(reservations)).status == "settling"
    sandbox.faults()
    await world.database.write(lambda c: c.execute(update(settlements).values(state="waiting", attempts=0)))
    await world.settle_all(world.settler(providers))
    await check_money(world, sandbox)


async def test_a_worker_that_slept_past_its_lease_writes_nothing(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    sandbox.faults(slow_ms=700)
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_slow")
    sleeper = world.settler(providers, lease_ms=100)
    await sleeper.pass_once()
    # It waits for its authorisation; meanwhile the lease runs out, and another settles the same reservation.
    await asyncio.sleep(0.15)
    await world.settle_all(world.settler(providers))
    before = await world.rows(settlements), await world.rows(payments), await world.rows(orders)
    await sleeper.settle_all()
    assert (await world.rows(settlements), await world.rows(payments), await world.rows(orders)) == before
    await check_money(world, sandbox)


async def settled_late(world: SettleWorld, providers: Providers, units: int = 2) -> str:
    """Captured, the reply lost, and the reservation ended before anybody knew."""
    await world.open_sale(units, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply_capture")
    await world.settler(providers).settle_all()
    await world.apply(SKU, Move(Transition.FAIL, bought))
    await world.drain()
    return bought


async def test_money_that_came_too_late_gets_another_unit(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    late = await settled_late(world, providers)
    await world.settle_all(world.settler(providers))
    await world.settle_all(world.settler(providers))
    [order] = await world.rows(orders)
    assert order.reservation_id == reacquired_id(late)
    assert (await world.one(payments)).reservation_id == order.reservation_id
    await check_money(world, sandbox)


async def test_money_that_came_too_late_for_any_unit_is_owed_back(world: SettleWorld, providers: Providers) -> None:
    late = await settled_late(world, providers, units=1)
    await world.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
    await world.settle_all(world.settler(providers))
    owed = await world.one(refunds)
    assert (owed.payment_key, owed.amount, owed.cause) == (payment_key_of(late), PRICE, "paid_too_late")
    assert await world.rows(orders) == []


async def test_money_for_what_somebody_else_sold_is_owed_back(world: SettleWorld, providers: Providers) -> None:
    await world.open_sale(2, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply_capture")
    await world.settler(providers).settle_all()
    await world.apply(SKU, Move(Transition.CONFIRM, bought))
    await world.drain()
    await world.settle_all(world.settler(providers))
    assert (await world.one(orders)).payment == "external"
    assert (await world.one(refunds)).cause == "sold_elsewhere"


async def test_money_set_aside_for_what_has_ended_is_let_go(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_lost_reply")
    await world.settler(providers).settle_all()
    await world.apply(SKU, Move(Transition.FAIL, bought))
    await world.drain()
    await world.settle_all(world.settler(providers))
    assert sandbox.books()[payment_key_of(bought)]["state"] == "voided"
    await check_money(world, sandbox)


async def test_a_payment_over_another_amount_is_parked(world: SettleWorld, providers: Providers) -> None:
    await world.open_sale(1, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, "pm_ok")
    await world.database.write(lambda c: c.execute(update(payments).values(state="attempted")))
    other = Charge(payment_key_of(bought), PRICE + 1, "EUR", "ada", bought, REMOTE.sale_id)
    await providers[PaymentKind.SANDBOX].authorise(other)
    await world.settler(providers).settle_all()
    row = await world.one(settlements)
    assert row.state == "parked"
    assert str(PRICE + 1) in row.reason
