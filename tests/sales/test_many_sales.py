"""Fifty sales at once: each sells out exactly."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from databases import new_postgres_database
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.expirer import Expirer
from holdfast.ledger.engine import postgres
from holdfast.runtime import store_health
from holdfast.sales.operations import Created
from holdfast.settings import load_settings
from valkeys import ValkeyProcess

SALES = 50
UNITS = 20
BUYERS = 30


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def settings_given(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    given: dict[str, object] = {"data": tmp_path, "queue_timeout_ms": 60_000, "redis_timeout_ms": 20_000}
    if request.param != "sqlite":
        given["database_url"] = new_postgres_database(request.getfixturevalue("postgres_url"))
    if request.param == "redis":
        valkey: ValkeyProcess = request.getfixturevalue("steady_valkey")
        valkey.command("FLUSHALL")
        given["redis_url"] = valkey.url
    return given


@pytest.fixture
async def services(settings_given: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """Fifty at once may make a busy machine's database late, which is no reason here to take it for dead."""
    monkeypatch.setattr(store_health, "PROBE_S", 30.0)
    monkeypatch.setattr(postgres, "POOL_TIMEOUT_S", 60.0)
    async with open_services(load_settings(**settings_given), background=True) as services:
        yield services


def sale(number: int) -> Sale:
    return Sale(
        sale_id=f"drop-{number}",
        sku_id=f"sku-{number}",
        name="Drop",
        price_amount=100,
        currency="EUR",
        starts_at=0,
        checkout=Checkout.CART,
        payment=PaymentKind.WALLET,
        loaded_units=UNITS,
    )


async def buy(services: Services, number: int, buyer: int) -> Outcome:
    sku_id = f"sku-{number}"
    owner = f"buyer-{buyer}"
    reservation_id = new_reservation_id(sku_id, owner)
    command = Reserve(reservation_id, owner, 1, 1, 60_000, f"key-{buyer}", sale_id=f"sale-{number}")
    return (await services.batcher.submit(sku_id, command)).outcome


@pytest.mark.slow
async def test_fifty_sales_sell_out_at_once_each_exactly(services: Services) -> None:
    made = [await services.sale_operations.create(sale(number)) for number in range(SALES)]
    assert all(isinstance(created, Created) and created.sale.problem is None for created in made)
    # In turns over the sales, as a crowd comes.
    asked = [(number, buyer) for buyer in range(BUYERS) for number in range(SALES)]
    answers = await asyncio.gather(*[buy(services, number, buyer) for number, buyer in asked])
    found = Counter((number, outcome) for (number, _), outcome in zip(asked, answers, strict=True))
    for number in range(SALES):
        assert found[number, Outcome.RESERVED] == UNITS
        assert found[number, Outcome.ALL_HELD] == BUYERS - UNITS


@pytest.mark.slow
async def test_fifty_pools_and_their_deadlines_are_looked_at(services: Services) -> None:
    for number in range(SALES):
        await services.sale_operations.create(sale(number))
    await asyncio.gather(*[buy(services, number, 1) for number in range(SALES)])
    views = await asyncio.gather(*[services.pool_reads.look(f"sku-{number}") for number in range(SALES)])
    assert [view.pool.held for view in views if view is not None] == [1] * SALES
    assert await Expirer(services.database, services.engine.gate).pass_once() == 0
