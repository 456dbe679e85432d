"""Confirming in a process whose catalogue does not know a sale yet, because another process has just created it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from holdfast.bootstrap.services import Services, open_services
from holdfast.checkout.holds import Denied
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.settings import load_settings

T = TypeVar("T")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    async with open_services(load_settings(data=tmp_path), background=False) as services:
        yield services


SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=100, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, loaded_units=10,
)  # fmt: skip


async def hold(services: Services) -> str:
    reservation_id = new_reservation_id("drop", "ada")
    verdict = await services.batcher.submit("drop", Reserve(reservation_id, "ada", 1, 1))
    assert verdict.reservation is not None, verdict
    return reservation_id


async def confirm(services: Services, reservation_id: str) -> Verdict | Denied:
    async def wait(verdict: asyncio.Future[T]) -> T:
        return await verdict

    return await services.holds.confirm(reservation_id, wait)


@pytest.mark.parametrize("knows_an_earlier_sale", [False, True])
async def test_what_is_paid_here_is_not_confirmed_before_its_sale_is_known(
    services: Services, knows_an_earlier_sale: bool
) -> None:
    if knows_an_earlier_sale:
        services.catalogue.put(structs.replace(SALE, sale_id="earlier", updated_at=1, closed_at=1))
    await services.sale_operations.create(SALE)
    held = await hold(services)
    assert services.catalogue.cached("drop") is None
    assert await confirm(services, held) is Denied.PAYMENT_REQUIRED


async def test_a_pool_in_no_sale_is_looked_for_once_in_a_while(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, read = [], services.database.read

    async def counted(work: object) -> object:
        asked.append(work)
        return await read(work)  # type: ignore[arg-type]

    monkeypatch.setattr(services.database, "read", counted)
    for _ in range(20):
        assert not await services.catalogue.learns_of_sale("plain")
    assert len(asked) < 5
