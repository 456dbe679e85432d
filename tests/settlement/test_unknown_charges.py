"""Charges that only the provider knows, because the ledger went back: each ends as an order, a refund or parked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from settle_harness import PRICE, SKU, Providers, SettleHarness, other_sale
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox
from sqlalchemy import Executable, delete, insert, update

from holdfast.bootstrap.recovery import decide, find_missing
from holdfast.bootstrap.stores import open_engine
from holdfast.domain.sale.sale import PaymentKind, Sale, payment_key_of
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.mark.mark import begin_incarnation, read_mark, went_back
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, reservations
from holdfast.payments.port import Charge, Payment, PaymentProvider
from holdfast.settings import Settings
from holdfast.settlement.parked import Parked
from holdfast.settlement.unknown_charges import UnknownCharge, UnknownCharges

pytest_plugins = ("settle_fixtures",)
# In Redis mode the ledger is repaired first, and the gate rebuilt from it.
on_sql = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)


async def charged(
    providers: Providers, *, sale_id: str = REMOTE.sale_id, capture: bool = True, ledger_mark: str | None = None
) -> Charge:
    id_ = new_reservation_id(SKU, "ada")
    bought = Reserve(id_, "ada", 1, 1, key="cart-7", settle=True)
    charge = Charge(payment_key_of(id_), PRICE, "EUR", "ada", id_, sale_id, "pm_ok")
    made_with = {"purchase_key": bought.key, "purchase_fingerprint": bought.fingerprint}
    charge = replace(charge, **made_with, ledger_mark=ledger_mark)
    payment = await providers["sandbox"].authorise(charge)
    if capture:
        await providers["sandbox"].capture(payment)
    return charge


def sale_of_its_own() -> Sale:
    """The sandbox also has charges of other tests, which are of other incarnations."""
    return other_sale(SKU, payment=PaymentKind.SANDBOX)


def keys_of(unknown: list[UnknownCharge]) -> set[str]:
    return {each.listed.charge.key for each in unknown}


async def found(harness: SettleHarness, providers: Providers, charge: Charge) -> tuple[UnknownCharges, UnknownCharge]:
    charges = UnknownCharges(harness.database, providers)
    [unknown] = [each for each in (await charges.find(0)).ours if each.listed.charge.key == charge.key]
    return charges, unknown


@on_sql
@pytest.mark.parametrize("capture", [True, False])
async def test_a_charge_with_units_left_becomes_an_order_and_its_key_finds_it(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, capture: bool
) -> None:
    await harness.open_sale(3, REMOTE)
    charge = await charged(providers, capture=capture)
    charges, unknown = await found(harness, providers, charge)
    assert await charges.adopt(unknown) == "settling"
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(orders)).reservation_id == charge.reservation_id
    again = Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, key="cart-7", settle=True)
    [verdict] = await harness.apply(SKU, again)
    assert verdict.outcome is Outcome.REPLAYED
    assert charge.key not in keys_of((await charges.find(0)).ours)
    await check_money(harness, sandbox)


@on_sql
async def test_a_charge_without_units_is_refunded(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    await harness.buy("bob")
    charge = await charged(providers)
    charges, unknown = await found(harness, providers, charge)
    assert await charges.adopt(unknown) == "returning"
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(refunds)).payment_key == charge.key
    await check_money(harness, sandbox)


@on_sql
async def test_the_charge_of_a_hold_that_the_ledger_has_is_found_under_its_key(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(3, REMOTE)
    charge = await charged(providers)
    hold = Reserve(charge.reservation_id, "ada", 1, 1, key="cart-7")
    await harness.apply(SKU, hold)
    charges, unknown = await found(harness, providers, charge)
    assert await charges.adopt(unknown) == "settling"
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(orders)).reservation_id == charge.reservation_id
    assert sandbox.books()[charge.key]["captures"] == 1
    await check_money(harness, sandbox)


@on_sql
@pytest.mark.parametrize("attempt", [2, 3])
@pytest.mark.parametrize("is_over", [True, False])
async def test_a_later_attempt_to_pay_is_resolved_and_nothing_is_charged_twice(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, is_over: bool, attempt: int
) -> None:
    """The ledger knows the attempt that was declined."""
    await harness.open_sale(1, replace(REMOTE, payment_attempts_max=5))
    id_ = await harness.buy("ada")
    await harness.settle_all(harness.settler(declining(providers)))
    assert (await harness.one(reservations)).status == "active"
    if is_over:
        await harness.database.write(lambda c: c.execute(update(reservations).values(expires_at=1)))
    charge = Charge(payment_key_of(id_, attempt), PRICE, "EUR", "ada", id_, REMOTE.sale_id, "pm_ok")
    await providers["sandbox"].capture(await providers["sandbox"].authorise(charge))
    charges, unknown = await found(harness, providers, charge)
    assert await charges.adopt(unknown) == ("returning" if is_over else "settling")
    await harness.settle_all(harness.settler(providers))
    assert {row.state for row in await harness.rows(payments)} == {"declined", "captured"}
    assert len(await harness.rows(orders)) == 1
    books = [book for key, book in sandbox.books().items() if key.startswith(payment_key_of(id_))]
    assert sum(book["captures"] for book in books) == 1


class Declining:
    """Of a card that its bank declines."""

    def __init__(self, provider: PaymentProvider) -> None:
        self._provider = provider

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def authorise(self, charge: Charge) -> Payment:
        return await self._provider.authorise(replace(charge, method="pm_decline"))


def declining(providers: Providers) -> Providers:
    return {**providers, "sandbox": Declining(providers["sandbox"])}


@on_sql
async def test_a_charge_for_a_sale_that_is_gone_is_parked(harness: SettleHarness, providers: Providers) -> None:
    await harness.open_sale(3, REMOTE)
    charges, unknown = await found(harness, providers, await charged(providers, sale_id="gone"))
    assert await charges.adopt(unknown) == "parked"
    assert (await harness.one(settlements)).state == "parked"
    assert (await harness.one(payments)).state == "attempted"
    await Parked(harness.database, harness.settler(providers), providers).drop(
        f"settlement:{unknown.listed.charge.reservation_id}", "ada"
    )
    assert (await harness.one(settlements)).state == "dropped"
    assert (await harness.one(refunds)).cause == "sale_gone"


@asynccontextmanager
async def changed(harness: SettleHarness, statement: Executable) -> AsyncIterator[None]:
    """Events other than they were, until this is left."""
    was = [dict(row._mapping) for row in await harness.rows(events)]
    await harness.database.write(lambda c: c.execute(statement))
    yield
    await harness.database.write(lambda c: (c.execute(delete(events)), c.execute(insert(events), was)))


@on_sql
async def test_a_charge_carries_the_mark_of_a_ledger_that_lost_every_other_one(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.database.write(lambda c: begin_incarnation(c, 1, 0))
    await harness.open_sale(3, sale_of_its_own())
    before = await harness.database.read(read_mark)
    assert before is not None
    id_ = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    charges = UnknownCharges(harness.database, providers)
    assert await charges.lacking_mark(0) is None
    async with changed(harness, delete(events).where(events.c.seq > before.seq)):
        seen = await charges.lacking_mark(0)
        assert seen is not None
        assert seen.incarnation == before.incarnation
        assert seen.seq > before.seq
        assert await harness.database.read(lambda c: went_back(c, seen)) is not None
    assert sandbox.books()[payment_key_of(id_)]["captures"] == 1


@on_sql
async def test_a_charge_shows_that_the_ledger_went_back_and_was_written_to_since(
    harness: SettleHarness, providers: Providers
) -> None:
    await harness.database.write(lambda c: begin_incarnation(c, 1, 0))
    await harness.open_sale(3, REMOTE)
    await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    async with changed(harness, update(events).values(reservation_id="another")):
        assert await UnknownCharges(harness.database, providers).lacking_mark(0) is not None


@on_sql
async def test_charges_of_another_ledger_at_the_same_provider_are_left_to_it(
    harness: SettleHarness, providers: Providers
) -> None:
    await harness.database.write(lambda c: begin_incarnation(c, 1, 0))
    await harness.open_sale(3, sale_of_its_own())
    charge = await charged(providers, sale_id="elsewhere", ledger_mark="another.7.digest")
    charges = UnknownCharges(harness.database, providers)
    left = await charges.find(0)
    assert charge.key not in keys_of(left.ours)
    assert charge.key in keys_of(left.of_others)
    assert charge.key in keys_of((await charges.find(0, ["another"])).ours)
    assert await charges.lacking_mark(0) is None


@on_sql
async def test_a_backup_from_before_the_incarnation_that_charged_finds_the_charges_for_its_sales(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, place: tuple[str, str, object], tmp_path: Path
) -> None:
    await harness.database.write(lambda c: begin_incarnation(c, 1, 0))
    sale = sale_of_its_own()
    await harness.open_sale(3, sale)
    charge = await charged(providers, sale_id=sale.sale_id, ledger_mark="later.7.digest")
    left = await charged(providers, sale_id="elsewhere", ledger_mark="another.7.digest")
    charges = UnknownCharges(harness.database, providers)
    assert await charges.lacking_mark(0) is None, "another ledger may share the account with the provider"
    settings = Settings(database_url=place[1], data=tmp_path)
    async with open_engine(settings, harness.database) as engine:
        missing = await find_missing(settings, harness.database, engine, charges)
        assert [mark.incarnation for mark in missing.seen] == ["later"]
        [unknown] = [each for each in missing.charges if each.listed.charge.key == charge.key]
        assert left.key in keys_of(missing.charges_of_others)
        # The sandbox also has charges of other tests.
        missing = replace(missing, charges=[unknown])
        decision = await decide(harness.database, None, missing, charges, "ada", restoring=True)
        assert decision.charges == {charge.key: "settling"}
        await harness.settle_all(harness.settler(providers))
        assert (await harness.one(orders)).reservation_id == charge.reservation_id
        assert not (await find_missing(settings, harness.database, engine, charges)).findings
    assert left.key in (await harness.rows(incarnations))[-1].report
    await check_money(harness, sandbox)
