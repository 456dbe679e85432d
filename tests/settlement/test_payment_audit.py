"""The payment audit: it does not block purchases, and finds money that no settlement works on."""

import asyncio
import threading

import pytest
from settle_harness import PRICE, SKU, Providers, SettleHarness
from settle_money import REMOTE
from sqlalchemy import Connection, delete, insert, update

from holdfast.domain.sale.sale import payment_key_of, reacquired_id
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.payment_notes import Method, note_method
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.settlement.payment_audit import NOTE_KEPT_MS

# As after a defect.
WRITES_BY_HAND = True

pytest_plugins = ("settle_fixtures",)


def captured(key_of: str, reservation_id: str, at: int) -> dict[str, object]:
    return {
        "payment_key": payment_key_of(key_of), "reservation_id": reservation_id, "sale_id": REMOTE.sale_id,
        "buyer_id": "ada", "provider": "sandbox", "amount": PRICE, "currency": "EUR", "state": "captured",
        "created_at": at, "updated_at": at,
    }  # fmt: skip


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_the_audit_and_purchases_do_not_block_each_other(harness: SettleHarness) -> None:
    await harness.open_sale(1)
    audit, is_over, has_begun = harness.audit(), threading.Event(), threading.Event()

    def hold(_connection: Connection) -> bool:
        has_begun.set()
        return is_over.wait(60)

    writer = asyncio.create_task(harness.database.write(hold, timeout_s=90))
    await asyncio.to_thread(has_begun.wait, 60)
    report = await asyncio.wait_for(audit.look(thorough=True), 60)
    is_over.set()
    assert await writer
    assert report.is_ok


@pytest.mark.parametrize("has_second", [False, True])
async def test_money_of_a_replacement_without_settlement_is_found(
    harness: SettleHarness, providers: Providers, has_second: bool
) -> None:
    """As after a defect: all settlements are closed, and the replacement does not exist or has none."""
    await harness.open_sale(2, REMOTE)
    first = await harness.buy("ada")
    second = reacquired_id(first)
    await harness.apply(SKU, Move(Transition.FAIL, first))
    await harness.drain()

    def leave(connection: Connection) -> None:
        connection.execute(insert(payments), [captured(first, second, 0)])
        connection.execute(update(settlements).values(state="done", successor_id=second))

    await harness.database.write(leave)
    settler = harness.settler(providers)
    audit = harness.audit(settler, providers)
    if has_second:
        made = await harness.apply(SKU, Reserve(second, "ada", 1, 1, settle=True), Move(Transition.FAIL, second))
        assert all(verdict.reservation is not None for verdict in made)
        await harness.drain()
        await harness.database.write(
            lambda c: c.execute(delete(settlements).where(settlements.c.reservation_id == second))
        )
    [finding] = (await audit.look()).findings
    assert (finding.finding, finding.is_repaired) == ("payment_without_order", True)
    for _ in range(3):
        await harness.settle_all(settler)
    assert len(await harness.rows(orders)) + len(await harness.rows(refunds)) == 1
    assert (await audit.look()).is_ok


async def test_recent_payments_are_always_checked_and_old_ones_on_demand(
    harness: SettleHarness, providers: Providers
) -> None:
    await harness.open_sale(2, REMOTE)
    audit = harness.audit(providers=providers)
    assert (await audit.look()).is_ok
    bought = await harness.buy("ada")
    await harness.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    await harness.database.write(lambda c: c.execute(insert(payments), [captured(bought, bought, 0)]))
    assert (await audit.look()).is_ok
    now = await harness.database.read(harness.database.now_ms)
    await harness.database.write(lambda c: c.execute(update(payments).values(updated_at=now)))
    assert [f.finding for f in (await audit.look()).findings] == ["payment_without_order"]
    await harness.settle_all(harness.settler(providers))


async def test_the_method_of_a_purchase_that_never_happened_is_deleted(harness: SettleHarness) -> None:
    await harness.open_sale(2, REMOTE)
    bought, lost = await harness.buy("ada"), new_reservation_id(SKU, "ada")
    now = await harness.database.read(harness.database.now_ms)

    def note(connection: Connection) -> None:
        for id_, at in ((bought, 1), (lost, now - NOTE_KEPT_MS - 1), (new_reservation_id(SKU, "bob"), now)):
            note_method(connection, REMOTE, id_, "ada", 1, Method("pm_ok"), at)

    await harness.database.write(note)
    await harness.audit().look(thorough=True)
    assert {row.updated_at for row in await harness.rows(payments)} == {1, now}
    assert payment_key_of(lost) not in {row.payment_key for row in await harness.rows(payments)}
