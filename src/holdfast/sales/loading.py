"""A sale gets its pool: loaded, checked, and only then opened.

The model. A sale begins as a row in the state `loading`, which says everything that is to come. Then its pool is made
or taken over, with the rules of the sale and the door shut; the ledger notes that the pool is in this sale; gate and
ledger are compared; the sale becomes `ready`, and the door opens when its time has come. Every step can be done again
without harm, so whoever finds a sale that is loading goes on with it: whatever step it was interrupted at, the next
attempt begins at the first and finds those done that are done.

The row is what should be; the gate follows. Whoever tells the gate looks at the row again afterwards, and tells it
again if the row has changed meanwhile: so of any number who tell at once, the last one tells what holds.

What happens when it fails. A difference leaves the sale loading, with its `problem` said; its pool does not sell.
"""

import asyncio
from enum import StrEnum

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.command import Provision, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import Sale, SaleState
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.port import Gate
from holdfast.ledger.database import Database
from holdfast.ledger.sale_lists import lock_sale, sale_of_pool, update_sale_if
from holdfast.ledger.sales import find_sale, put_pool_in_sale
from holdfast.sales.inspection import CatchUp, Inspector

log = structlog.get_logger()

# Whoever has begun to load a sale has this long before somebody else goes on with it; the gate is not asked for longer
# than `GATE_S`, so that the two never meet.
TAKE_UP_AFTER_MS = 15_000
GATE_S = 10.0
# A load asks the ledger a dozen things. Whoever makes many sales at once must not take its connections from buyers.
LOADS_MAX = 2


class Obstacle(StrEnum):
    """What only a person can move out of the way, or time."""

    BELOW_COMMITTED = "more units of the pool are held or sold than the sale is to have"
    OTHERS_HOLD = "units of the pool are still held for buyers of the sale before"


class Loaded(Struct, frozen=True):
    """How far it came. Without an obstacle or a problem, the sale is ready."""

    sale: Sale
    obstacle: Obstacle | None = None


class Loader:
    def __init__(self, database: Database, gate: Gate, inspector: Inspector, catch_up: CatchUp) -> None:
        self._database = database
        self._gate = gate
        self._inspector = inspector
        self._catch_up = catch_up
        self._turns = asyncio.Semaphore(LOADS_MAX)

    async def take_up(self, sale: Sale, now: int) -> Loaded | None:
        """Go on with a sale that somebody began to load, unless somebody else just did."""
        is_left = sale.updated_at <= now - TAKE_UP_AFTER_MS
        if is_left and await self._database.write(lambda c: update_sale_if(c, sale, {}, now=now)):
            return await self.load(sale)
        return None

    async def load(self, sale: Sale) -> Loaded:
        async with self._turns:
            return await self._load(sale)

    async def _load(self, sale: Sale) -> Loaded:
        obstacle = await self._fill_pool(sale)
        if obstacle is not None:
            return Loaded(await self._note(sale.sale_id, obstacle), obstacle)
        sale = await self.enforce(sale)
        problem = await self._inspector.problem_of(sale)
        if problem is not None or sale.state is not SaleState.LOADING:
            return Loaded(await self._note(sale.sale_id, problem))
        return Loaded(await self._make_ready(sale))

    async def _fill_pool(self, sale: Sale) -> Obstacle | None:
        """A pool that is in the sale has its total already, which may have been changed since."""
        before = await self._database.read(lambda c: sale_of_pool(c, sale.sku_id))
        if before == sale.sale_id:
            return None
        verdict = await self._tell(sale, Provision(sale.loaded_units, sale.rules))
        if verdict.outcome is Outcome.INSUFFICIENT:
            return Obstacle.BELOW_COMMITTED
        if before is not None:
            await self._catch_up(sale.sku_id)
            if verdict.pool is not None and verdict.pool.held:
                return Obstacle.OTHERS_HOLD
        await self._database.write(lambda c: put_pool_in_sale(c, sale.sku_id, sale.sale_id))
        return None

    async def _make_ready(self, sale: Sale) -> Sale:
        def write(connection: Connection) -> bool:
            changes: dict[str, object] = {"state": SaleState.READY, "problem": None}
            return update_sale_if(connection, sale, changes, now=self._database.now_ms(connection))

        if await self._database.write(write):
            log.info("sale_ready", sale_id=sale.sale_id, sku_id=sale.sku_id)
        return await self.enforce(sale)

    async def shut(self, sale: Sale, problem: str) -> Sale:
        """The door of a sale that was ready is shut again."""

        def write(connection: Connection) -> bool:
            changes: dict[str, object] = {"state": SaleState.LOADING, "problem": problem}
            return update_sale_if(connection, sale, changes, now=self._database.now_ms(connection))

        if await self._database.write(write):
            log.error("sale_shut", sale_id=sale.sale_id, sku_id=sale.sku_id, problem=problem)
        return await self.enforce(sale)

    async def _note(self, sale_id: str, problem: str | None) -> Sale:
        def write(connection: Connection) -> Sale:
            sale = lock_sale(connection, sale_id)
            assert sale is not None
            if sale.state is SaleState.LOADING and sale.problem != problem:
                update_sale_if(connection, sale, {"problem": problem}, now=self._database.now_ms(connection))
                return replace(sale, problem=problem)
            return sale

        sale = await self._database.write(write)
        if problem is not None:
            log.warning("sale_not_loaded", sale_id=sale_id, sku_id=sale.sku_id, problem=problem)
        return sale

    async def enforce(self, sale: Sale) -> Sale:
        """The gate keeps to the rules of the sale as its row has them, when this returns. Gives that row."""
        told = None
        while True:
            now_so, in_sale = await self._database.read(
                lambda c: (find_sale(c, sale.sale_id), sale_of_pool(c, sale.sku_id))
            )
            if now_so is None or now_so.rules == told:
                return now_so or sale
            # The pool of a closed sale may be in another by now, and that one's rules are not ours to change.
            if now_so.state is SaleState.CLOSED and in_sale != now_so.sale_id:
                return now_so
            verdict = await self._tell(now_so, Provision(None, now_so.rules))
            if verdict.outcome is Outcome.POOL_NOT_FOUND and now_so.state is SaleState.LOADING:
                return now_so
            if not verdict.outcome.is_success:
                raise Unavailable(f"the pool {sale.sku_id} does not take its rules: {verdict.outcome}")
            told = now_so.rules

    async def _tell(self, sale: Sale, command: Provision) -> Verdict:
        try:
            async with asyncio.timeout(GATE_S):
                [verdict] = await self._gate.apply(sale.sku_id, [command])
        except TimeoutError as exc:
            raise OutcomeUnknown(f"the pool {sale.sku_id} did not answer in time") from exc
        if verdict.outcome is Outcome.NOT_READY:
            raise Unavailable(f"the pool {sale.sku_id} is not ready")
        return verdict
