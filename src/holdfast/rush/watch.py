"""Looks at stock and line while the crowd is at it, with a service key, as a console would."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.rush.operator import Operator
from holdfast.rush.visitor import Offer

# One look at each of many products takes a while; so the more there are, the rarer.
LOOK_S = 0.25
PRODUCTS_PER_LOOK = 4


class Sample(Struct, frozen=True):
    """All products together. `asked_at`: nothing in it is older than that."""

    asked_at: float
    total_units: int
    available: int
    held: int
    sold: int
    joined: int = 0
    waiting: int = 0
    serving: dict[str, int] = {}
    """By sale: how many have been called."""


class Watch:
    def __init__(self, operator: Operator, offers: Sequence[Offer]) -> None:
        self._operator, self._offers = operator, offers
        self.samples: list[Sample] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        watching = asyncio.create_task(self.run())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def run(self) -> None:
        pause_s = LOOK_S * max(1, len(self._offers) // PRODUCTS_PER_LOOK)
        while True:
            # A server that does not answer has more to do. The checks will ask again, and insist.
            with suppress(HoldfastError):
                await self.look()
            await asyncio.sleep(pause_s)

    async def look(self) -> Sample:
        asked_at = monotonic()
        stocks = [await self._operator.stock(offer.sku_id) for offer in self._offers]
        lines = {
            offer.sale_id: await self._operator.line(offer.sale_id) for offer in self._offers if offer.room != "off"
        }
        sample = Sample(
            asked_at,
            sum(stock.total_units for stock in stocks),
            sum(stock.available for stock in stocks),
            sum(stock.held for stock in stocks),
            sum(stock.sold for stock in stocks),
            sum(line.joined for line in lines.values()),
            sum(line.waiting for line in lines.values()),
            {sale_id: line.serving for sale_id, line in lines.items()},
        )
        self.samples.append(sample)
        return sample
