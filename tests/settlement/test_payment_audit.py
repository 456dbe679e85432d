"""The audit of money: beside the purchases, of everything now and then, and of money that is on its way nowhere."""

import asyncio
import threading

import pytest
from settle_money import REMOTE
from settle_world import PRICE, SKU, Providers, SettleWorld
from sqlalchemy import Connection, delete, insert, update

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import payment_key_of
from holdfast.domain.settling import reacquired_id
from holdfast.ledger.payment_notes import note_method
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.settlement.payment_audit import NOTE_KEPT_MS

pytest_plugins = ("settle_fixtures",)


def captured(key_of: str, reservation_id: str, at: int) -> dict[str, object]:
    return {
        "payment_key": payment_key_of(key_of), "reservation_id": reservation_id, "sale_id": REMOTE.sale_id,
        "buyer_id": "ada", "provider": "sandbox", "amount": PRICE, "currency": "EUR", "state": "captured",
        "created_at": at, "updated_at": at,
    }  # fmt: skip


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_purchases_do_not_wait_for_a_look_nor_the_look_for_them(world: SettleWorld) -> None:
    await world.open_sale(1)
    audit, is_over, has_begun = world.audit(), threading.Event(), threading.Event()

    def hold(_connection: Connection) -> bool:
        has_begun.set()
        return is_over.wait(60)

    writer = asyncio.create_task(world.database.write(hold, timeout_s=90))
    await asyncio.to_thread(has_begun.wait, 60)
    report = await asyncio.wait_for(audit.look(thorough=True), 60)
    is_over.set()
    assert await writer
    assert report.is_ok


@pytest.mark.parametrize("has_second", [False, True])
async def test_money_that_went_on_to_a_reservation_that_nobody_settles_is_found(
    world: SettleWorld, providers: Providers, has_second: bool
) -> None:
    """As it was left by a defect: all work is closed, and the second one never came to be, or had no work."""
    await world.open_sale(2, REMOTE)
    first = await world.buy("ada")
    second = reacquired_id(first)
    await world.apply(SKU, Move(Transition.FAIL, first))
    await world.drain()

    def leave(connection: Connection) -> None:
        connection.execute(insert(payments), [captured(first, second, 0)])
        connection.execute(update(settlements).values(state="done", successor_id=second))

    await world.database.write(leave)
    settler = world.settler(providers)
    audit = world.audit(settler, providers)
    if has_second:
        made = await world.apply(SKU, Reserve(second, "ada", 1, 1, settle=True), Move(Transition.FAIL, second))
        assert all(verdict.reservation is not None for verdict in made)
        await world.drain()
        await world.database.write(
            lambda c: c.execute(delete(settlements).where(settlements.c.reservation_id == second))
        )
    [finding] = (await audit.look()).findings
    assert (finding.finding, finding.is_mended) == ("payment_without_order", True)
    for _ in range(3):
        await world.settle_all(settler)
    assert len(await world.rows(orders)) + len(await world.rows(refunds)) == 1
    assert (await audit.look()).is_ok


async def test_old_money_is_looked_at_on_demand_and_recent_money_always(
    world: SettleWorld, providers: Providers
) -> None:
    await world.open_sale(2, REMOTE)
    audit = world.audit(providers=providers)
    assert (await audit.look()).is_ok
    bought = await world.buy("ada")
    await world.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    await world.database.write(lambda c: c.execute(insert(payments), [captured(bought, bought, 0)]))
    assert (await audit.look()).is_ok
    now = await world.database.read(world.database.now_ms)
    await world.database.write(lambda c: c.execute(update(payments).values(updated_at=now)))
    assert [f.finding for f in (await audit.look()).findings] == ["payment_without_order"]
    await world.settle_all(world.settler(providers))


async def test_a_method_noted_for_a_purchase_that_never_was_is_forgotten(world: SettleWorld) -> None:
    await world.open_sale(2, REMOTE)
    bought, lost = await world.buy("ada"), new_reservation_id(SKU, "ada")
    now = await world.database.read(world.database.now_ms)

    def note(connection: Connection) -> None:
        for id_, at in ((bought, 1), (lost, now - NOTE_KEPT_MS - 1), (new_reservation_id(SKU, "bob"), now)):
            note_method(connection, REMOTE, id_, "ada", 1, "pm_ok", at)

    await world.database.write(note)
    await world.audit().look(thorough=True)
    assert {row.updated_at for row in await world.rows(payments)} == {1, now}
    assert payment_key_of(lost) not in {row.payment_key for row in await world.rows(payments)}
