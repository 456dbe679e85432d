"""One run: starts a server, lets the buyers arrive, waits until everything is paid, and verifies the ledger."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ParamSpec

from holdfast.errors import HoldfastError
from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.simulation.buyers import HoldfastBuyers, Tally, arrivals, click_at_shop
from holdfast.lab.simulation.faults import Faults
from holdfast.lab.simulation.options import Fault, Options
from holdfast.lab.simulation.server import PAYMENT_S, ServerUnderTest, Verdict
from holdfast.lab.simulation.shops.shop import Shop, Shops
from holdfast.lab.simulation.snapshot import Clicks, Gate, LedgerCounts, Phase, Point, ShopCounts, Snapshot, no_counts
from holdfast.lab.simulation.stores import Stores

P = ParamSpec("P")

CONNECTIONS = 256
SAMPLE_S = 0.2
SETTLES_WITHIN_S = 90.0
RUN_MAX_S = 400.0
POINTS_SENT = 150


class NotRunning(HoldfastError):
    """A request that needs an active run."""


class Run:
    def __init__(self, stores: Stores, options: Options, number: int, *, is_duplicating: bool) -> None:
        self._stores, self._options, self._number = stores, options, number
        self.phase, self._message = Phase.STARTING, ""
        self._is_duplicating = is_duplicating
        self._tally, self._gate, self._ledger = Tally(), Gate(), LedgerCounts()
        self._shop_counts = no_counts(has_redis=stores.has_valkey)
        self._points: list[Point] = []
        self._began = self._ended = monotonic()
        self._verdict: Verdict | None = None
        self._faults: Faults | None = None
        self._pending: set[asyncio.Task[None]] = set()

    def cause(self, fault: Fault) -> None:
        if self._faults is None or self.phase not in (Phase.SELLING, Phase.SETTLING):
            raise NotRunning("Start a run first.")
        self._faults.cause(fault)

    def duplicate_clicks(self, *, is_on: bool) -> None:
        self._is_duplicating = is_on

    async def work(self) -> None:
        """Runs to the end. The phase shows how it ended."""
        try:
            async with asyncio.timeout(RUN_MAX_S):
                with tempfile.TemporaryDirectory(prefix="holdfast-run-", ignore_cleanup_errors=True) as directory:
                    await self._work(Path(directory))
        except asyncio.CancelledError:
            self._end(Phase.STOPPED, "Stopped before the end, so nothing was verified.")
            raise
        except (HoldfastError, BenchFailed, TimeoutError, OSError) as exc:
            self._end(Phase.FAILED, str(exc) or "It took too long.")

    def _end(self, phase: Phase, message: str = "") -> None:
        self.phase, self._message, self._ended = phase, message, monotonic()

    async def _work(self, directory: Path) -> None:
        options = self._options
        cache_url = await asyncio.to_thread(self._stores.cache_url) if self._stores.has_valkey else None
        server = ServerUnderTest(self._stores, options.engine, directory)
        shops = Shops(directory, options.units, cache_url, partial(asyncio.sleep, PAYMENT_S))
        self._faults = Faults(self._stores, server, shops, options.engine)
        try:
            await shops.prepare()
            await server.start()
            await server.open_sale(options.units)
            await self._sell(server, shops, self._faults)
            self.phase = Phase.VERIFYING
            self._verdict = await server.verify()
            self._end(Phase.DONE)
        finally:
            await self._stop_clicks()
            await self._faults.cancel()
            await server.close()
            await shops.close()

    async def _sell(self, server: ServerUnderTest, shops: Shops, faults: Faults) -> None:
        client = LoadClient("127.0.0.1", server.port, CONNECTIONS)
        # Sampled separately, so that one unresponsive store does not delay the figures of the other.
        sampling = asyncio.gather(
            self._often(self._sample_gate, server, shops), self._often(self._sample_ledger, server)
        )
        try:
            self._began = monotonic()
            faults.restart_clock()
            self.phase = Phase.SELLING
            await self._let_buyers_come(HoldfastBuyers(client, server.tokens, self._tally), shops.all)
            self.phase = Phase.SETTLING
            await asyncio.gather(*self._pending)
            await faults.ended()
            await self._settle(server, shops)
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            client.close()

    async def _let_buyers_come(self, buyers: HoldfastBuyers, shops: list[Shop]) -> None:
        options = self._options
        for number, at_s in enumerate(arrivals(options.users, options.seconds, options.seed)):
            await asyncio.sleep(self._began + at_s - monotonic())
            self._tally.arrived += 1
            for _ in range(2 if self._is_duplicating else 1):
                self._click(buyers, shops, f"buyer-{number}")

    def _click(self, buyers: HoldfastBuyers, shops: list[Shop], buyer_id: str) -> None:
        for work in (buyers.click(buyer_id), *(click_at_shop(shop, buyer_id) for shop in shops)):
            task = asyncio.create_task(work)
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)

    async def _stop_clicks(self) -> None:
        waiting = list(self._pending)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _often(self, sample: Callable[P, Awaitable[None]], *given: P.args, **named: P.kwargs) -> None:
        while True:
            await sample(*given, **named)
            await asyncio.sleep(SAMPLE_S)

    async def _sample_ledger(self, server: ServerUnderTest) -> None:
        sold = await server.count_sold()
        self._ledger = LedgerCounts(sold is not None, *(sold or (self._ledger.orders, self._ledger.twice)))

    async def _sample_gate(self, server: ServerUnderTest, shops: Shops) -> None:
        stock = await server.read_stock()
        if stock is None:
            self._gate = Gate(False, self._gate.available, self._gate.held, self._gate.sold)
        else:
            self._gate = Gate(True, stock.available, stock.held, stock.sold)
        self._shop_counts = [self._count(shop) for shop in shops.all]
        sold = [counts.sold for counts in self._shop_counts]
        at_s = round(monotonic() - self._began, 1)
        self._points.append(Point(at_s, self._gate.held + self._gate.sold, self._ledger.orders, sold))

    def _count(self, shop: Shop) -> ShopCounts:
        totals, kind = shop.book.totals(), shop.kind
        oversold = max(0, totals.orders - self._options.units)
        return ShopCounts(
            kind.name, kind.title, kind.about, kind.code, totals.orders, oversold, totals.twice, shop.errors
        )

    async def _settle(self, server: ServerUnderTest, shops: Shops) -> None:
        async with asyncio.timeout(SETTLES_WITHIN_S):
            while True:
                if await self._is_settled(server, shops):
                    return
                await asyncio.sleep(SAMPLE_S)

    async def _is_settled(self, server: ServerUnderTest, shops: Shops) -> bool:
        await self._sample_gate(server, shops)
        await self._sample_ledger(server)
        gate, ledger = self._gate, self._ledger
        return gate.is_up and ledger.is_up and gate.held == 0 and gate.sold == ledger.orders

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.phase,
            self._number,
            self._options,
            round((monotonic() if self.phase.is_running else self._ended) - self._began, 1),
            self._message,
            self._is_duplicating,
            self._clicks(),
            self._gate,
            max(0, self._gate.held + self._gate.sold - self._ledger.orders),
            self._ledger,
            self._shop_counts,
            [] if self._faults is None else self._faults.notes,
            self._points[:: 1 + len(self._points) // POINTS_SENT] + self._points[-1:],
            self._verdict,
        )

    def _clicks(self) -> Clicks:
        tally, recent = self._tally, sorted(self._tally.recent_ms)
        middle, worst = (recent[len(recent) // 2], recent[len(recent) * 99 // 100]) if recent else (None, None)
        return Clicks(
            tally.arrived, tally.clicks, len(tally.reserved), tally.replayed, tally.refused, tally.retried,
            tally.gave_up, tally.clicks - tally.answered - tally.gave_up, middle, worst, dict(tally.reasons),
        )  # fmt: skip
