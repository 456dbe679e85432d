"""A repeated purchase while nothing new may begin, and the holds that a refusal for the limit names."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from holdfast.bootstrap.services import Services, open_services
from holdfast.checkout.mine import FindMine
from holdfast.checkout.purchase import Denied, Granted, Refused, Wanted
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.outcome import Outcome
from holdfast.settings import load_settings

T = TypeVar("T")
SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=100, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, loaded_units=10, per_buyer_limit=2,
)  # fmt: skip


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    async with open_services(load_settings(data=tmp_path), background=False) as services:
        await services.sale_operations.create(SALE)
        yield services


async def decided(verdict: asyncio.Future[T], /) -> T:
    return await verdict


async def test_a_repeat_under_load_is_told_if_its_key_was_used_for_something_else(services: Services) -> None:
    wanted = Wanted("ada", 0, "key", 1)
    repeat = services.purchase_units.repeat
    assert await repeat("drop", wanted) is Denied.BUSY
    bought = await services.purchase_units.purchase("drop", wanted, decided)
    assert isinstance(bought, Granted)
    repeated = await repeat("drop", wanted)
    assert isinstance(repeated, Granted)
    assert repeated.reservation == bought.reservation
    reused = await repeat("drop", structs.replace(wanted, quantity=2))
    assert isinstance(reused, Refused)
    assert reused.verdict.outcome is Outcome.KEY_REUSED


async def test_buyers_refused_at_once_share_a_catch_up_that_begins_after_they_asked(services: Services) -> None:
    catch_ups = 0
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def catch_up(_sku_id: str | None) -> None:
        nonlocal catch_ups
        catch_ups += 1
        has_begun.set()
        await may_go_on.wait()

    mine = FindMine(services.reads, services.catalogue, catch_up)
    bought = await services.purchase_units.purchase("drop", Wanted("ada", 0, "key", 2), decided)
    assert isinstance(bought, Granted)
    held = bought.reservation.reservation_id
    first = asyncio.ensure_future(mine.live_ids(SALE, "ada"))
    await has_begun.wait()
    more = [asyncio.ensure_future(mine.live_ids(SALE, buyer_id)) for buyer_id in ["ada", "bob"] * 10]
    await asyncio.sleep(0)
    may_go_on.set()
    assert await first == [held]
    assert await asyncio.gather(*more) == [[held], []] * 10
    assert catch_ups == 2
