"""A provider that drips holds up its own payments, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from settle_harness import SKU, SettleHarness, other_sale
from sqlalchemy import Connection, select

from holdfast.domain.sale.sale import PaymentKind, Sale
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.payment_notes import Method, note_method
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.payments.port import PaymentProvider
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.payments.stripe.provider import StripeProvider
from holdfast.settlement.settler import Settler
from hostile_server import attacking, drip_body
from stripe_server import API_KEY, running_stripe

pytest_plugins = ("settle_fixtures",)

PARALLEL = 8
# Far beyond the test: what waits for the dripping provider waits until the end.
PATIENCE_S = 600.0
OTHER_SKU = "boot"


@asynccontextmanager
async def a_good_and_a_bad_provider() -> AsyncIterator[dict[str, PaymentProvider]]:
    async with attacking(drip_body) as url, running_stripe() as stripe:
        bad, good = SandboxProvider(url, PATIENCE_S), StripeProvider(API_KEY, PATIENCE_S, stripe.url)
        try:
            yield {"sandbox": bad, "stripe": good}
        finally:
            await bad.close()
            await good.close()


def note_card(sale: Sale, reservation_id: str, connection: Connection) -> None:
    note_method(connection, sale, reservation_id, "ada", 1, Method("pm_card_visa"), 1)


async def buy(harness: SettleHarness, kind: PaymentKind, sku_id: str, count: int) -> None:
    sale = other_sale(sku_id, payment=kind)
    await harness.open_sale(count, sale)
    for _ in range(count):
        id_ = new_reservation_id(sku_id, "ada")
        await harness.database.write(partial(note_card, sale, id_))
        await harness.buy_all([Reserve(id_, "ada", 1, 1, settle=True)], sku_id)


async def settle_until_ordered(harness: SettleHarness, settler: Settler) -> str:
    while True:
        await settler.pass_once()
        sold = await harness.database.read(lambda c: c.execute(select(orders.c.sku_id).where(is_sold)).scalar())
        if sold is not None:
            return str(sold)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_payments_of_other_providers_are_not_delayed(harness: SettleHarness) -> None:
    async with a_good_and_a_bad_provider() as providers:
        await buy(harness, PaymentKind.SANDBOX, SKU, 2 * PARALLEL)
        settler = harness.settler(providers, parallel=PARALLEL)
        for _ in range(3):
            await settler.pass_once()
        await buy(harness, PaymentKind.STRIPE, OTHER_SKU, 1)
        async with asyncio.timeout(60):
            assert await settle_until_ordered(harness, settler) == OTHER_SKU
        await settler._cancel_all()


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_settling_wallets_leaves_a_providers_payments_in_the_same_pool_to_those_with_a_lease(
    harness: SettleHarness,
) -> None:
    """Two sales of one pool, one after the other: the first is still being paid by card."""
    await buy(harness, PaymentKind.SANDBOX, SKU, 2)
    assert await harness.database.write(lambda c: harness.posting().settle_due(c, SKU, 10)) == []
