"""Samples stock and queue while the buyers are active, with a service key, like a console."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.server.sale_admin import SaleAdmin

# Reading many products takes a while, so they are sampled less often.
SAMPLE_EVERY_S = 0.25
PRODUCTS_PER_SAMPLE = 4


class Sample(Struct, frozen=True):
    """The sum of all products. None of its values is older than `asked_at`."""

    asked_at: float
    total_units: int
    available: int
    held: int
    sold: int
    joined: int = 0
    waiting: int = 0
    serving: dict[str, int] = {}
    """The number of buyers called, by sale."""


class StockMonitor:
    def __init__(self, admin: SaleAdmin, offers: Sequence[Offer]) -> None:
        self._admin, self._offers = admin, offers
        self.samples: list[Sample] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        pause_s = SAMPLE_EVERY_S * max(1, len(self._offers) // PRODUCTS_PER_SAMPLE)
        while True:
            # An overloaded server may miss a sample; the final checks insist on a response.
            with suppress(HoldfastError):
                await self.sample()
            await asyncio.sleep(pause_s)

    async def sample(self) -> Sample:
        asked_at = monotonic()
        stocks = [await self._admin.stock(offer.sku_id) for offer in self._offers]
        queues = {
            offer.sale_id: await self._admin.queue_status(offer.sale_id)
            for offer in self._offers
            if offer.room != "off"
        }
        sample = Sample(
            asked_at,
            sum(stock.total_units for stock in stocks),
            sum(stock.available for stock in stocks),
            sum(stock.held for stock in stocks),
            sum(stock.sold for stock in stocks),
            sum(queue.joined for queue in queues.values()),
            sum(queue.waiting for queue in queues.values()),
            {sale_id: queue.serving for sale_id, queue in queues.items()},
        )
        self.samples.append(sample)
        return sample
