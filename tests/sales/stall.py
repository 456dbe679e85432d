"""Everything a sale needs, on one engine, and a sale to create in it."""

import asyncio

from sqlalchemy import select

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.event_type import EventType
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.port import Gate
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.redis.shards.restock import RedisRestocker
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.tables.stock import events
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import SigningKey
from holdfast.sales.inspection import CatchUp, Inspector
from holdfast.sales.lifecycle import SaleLifecycle
from holdfast.sales.loading import RESUME_AFTER_MS, Loader
from holdfast.sales.operations import Created, SaleOperations
from holdfast.testing.states import NOW
from redis_setup import RedisSetup
from set_clock import SetClock

SEALER = Sealer([SigningKey("k", "s" * 32)])

SKU = "sneaker"
STARTS_AT = NOW + 3_600_000
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=STARTS_AT,
    ends_at=STARTS_AT + 60_000,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
    loaded_units=5,
)


class Stall:
    """Everything a sale needs, on one engine, by a clock that the test sets."""

    def __init__(
        self,
        clock: SetClock,
        gate: Gate,
        reconciler: Reconciler,
        catch_up: CatchUp,
        redis: RedisSetup | None = None,
    ) -> None:
        self.clock, self.gate, self.redis = clock, gate, redis
        self.reconciler = reconciler
        self.inspector = Inspector(reconciler, catch_up)
        self.loader = Loader(clock, gate, self.inspector, catch_up)
        self.lifecycle = SaleLifecycle(clock, self.loader, self.inspector)
        restocker = None if redis is None else RedisRestocker(clock, redis.splits, redis.transfers)
        self.operations = SaleOperations(clock, gate, self.loader, {}, SEALER, restocker)
        self.catch_up = catch_up

    async def sale(self) -> Sale:
        found = await self.clock.read(lambda c: find_sale(c, SALE.sale_id))
        assert found is not None
        return found

    async def try_to_buy(self) -> Outcome:
        [verdict] = await self.gate.apply(SKU, [Reserve("rsv_1", "ada", 1, 1)])
        return verdict.outcome

    async def told(self) -> list[tuple[str, str]]:
        published = events.c.type.like("sale.%") & events.c.type.in_(list(EventType))
        wanted = select(events.c.type, events.c.subject).where(published).order_by(events.c.seq)
        return [(row[0], row[1]) for row in await self.clock.read(lambda c: list(c.execute(wanted)))]

    async def pass_later(self, ms: int = RESUME_AFTER_MS) -> None:
        self.clock.advance(ms)
        await self.lifecycle.pass_once()


async def made(stall: Stall, sale: Sale = SALE) -> Sale:
    created = await stall.operations.create(sale)
    assert isinstance(created, Created)
    return created.sale


async def until_ready(stall: Stall) -> Sale:
    """Two turns of the lifecycle are enough, whatever was done before. A pool that was on its way into Redis is brought
    there by the reconciler, once nobody else can be at it."""
    async with asyncio.timeout(60):
        while True:
            for _ in range(2):
                await stall.pass_later()
            if (sale := await stall.sale()).state is SaleState.READY:
                return sale
            await stall.reconciler.pass_once()
            await asyncio.sleep(0.2)
