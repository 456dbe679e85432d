"""Loads the pool of a sale, checks it, and only then makes the sale ready.

The model. A sale starts as a row in the state `loading`, which holds its complete definition. Then its pool is created
or taken over, with the rules of the sale and paused; the ledger records that the pool is in this sale; gate and ledger
are compared; the sale becomes `ready` and opens at its start. Every step is idempotent, so any process can resume a
loading sale: it starts from the first step, and steps that are done have no effect.

The row is the desired state, and the gate follows it. After a process has applied the rules to the gate, it reads the
row again and repeats if the row has changed. So with any number of concurrent writers, the gate ends up with the rules
of the last row.

What happens when it fails. If gate and ledger differ, the sale stays in `loading` with its `problem` set, and its pool
does not sell.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.sale.sale import Sale, SaleState
from holdfast.domain.stock.command import Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_lists import lock_sale, sale_of_pool, update_sale_if
from holdfast.ledger.sales.sales import count_anew, find_sale, put_pool_in_sale
from holdfast.sales.inspection import CatchUp, Inspector

log = structlog.get_logger()

# A loading process has this long before another one resumes its work. A call to the gate is limited to `GATE_S`, so
# that the two never overlap.
RESUME_AFTER_MS = 15_000
GATE_S = 10.0
# A load makes a dozen queries. Creating many sales together must not take the database connections from buyers.
LOADS_MAX = 2


class Obstacle(StrEnum):
    """An obstacle that only a person, or time, can resolve."""

    BELOW_COMMITTED = "more units of the pool are held or sold than the sale is to have"
    OTHERS_HOLD = "units of the pool are still held, by buyers of the sale before or through the inventory"


class Loaded(Struct, frozen=True):
    """The result of a load. Without an obstacle or a problem, the sale is ready."""

    sale: Sale
    obstacle: Obstacle | None = None


class Loader:
    def __init__(
        self,
        database: Database,
        gate: Gate,
        inspector: Inspector,
        catch_up: CatchUp,
        reload: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`reload`: makes a gate that is not the ledger load a pool again."""
        self._database = database
        self._gate = gate
        self._inspector = inspector
        self._catch_up = catch_up
        self._reload = reload
        self._turns = asyncio.Semaphore(LOADS_MAX)

    async def resume(self, sale: Sale, now: int) -> Loaded | None:
        """Resume a load that another process left behind, unless yet another one just did."""
        is_left = sale.updated_at <= now - RESUME_AFTER_MS
        if is_left and await self._database.write(lambda c: update_sale_if(c, sale, {}, now=now)):
            return await self.load(sale)
        return None

    async def load(self, sale: Sale) -> Loaded:
        async with self._turns:
            return await self._load(sale)

    async def take_over(self, sale: Sale) -> None:
        """Put a pool that has the units of the sale into it."""
        await self._count_anew(sale)
        await self._database.write(lambda c: put_pool_in_sale(c, sale.sku_id, sale.sale_id, self._database.now_ms(c)))

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
        """A pool that is already in the sale keeps its total, which may have changed since."""
        before = await self._database.read(lambda c: sale_of_pool(c, sale.sku_id))
        if before == sale.sale_id:
            return None
        verdict = await self._apply(sale, Provision(sale.loaded_units, sale.rules))
        if verdict.outcome is Outcome.INSUFFICIENT:
            return Obstacle.BELOW_COMMITTED
        await self._catch_up(sale.sku_id)
        if verdict.pool is not None and verdict.pool.held:
            # If confirmed later, they would become orders of this sale although they were not reserved in it.
            return Obstacle.OTHERS_HOLD
        await self.take_over(sale)
        return None

    async def _count_anew(self, sale: Sale) -> None:
        """Limits per buyer begin at zero in every sale. Until the pool is in this one it does not sell, so there is
        nothing to count. After that another process may have opened the sale: one that was stopped here for long must
        not forget what was bought in it."""
        names = await self._database.write(lambda c: count_anew(c, sale.sku_id, sale.sale_id, self._database.now_ms(c)))
        for name in names if self._reload is not None else ():
            assert self._reload is not None
            await self._reload(name)

    async def _make_ready(self, sale: Sale) -> Sale:
        def write(connection: Connection) -> bool:
            changes: dict[str, object] = {"state": SaleState.READY, "problem": None}
            return update_sale_if(connection, sale, changes, now=self._database.now_ms(connection))

        if await self._database.write(write):
            log.info("sale_ready", sale_id=sale.sale_id, sku_id=sale.sku_id)
        return await self.enforce(sale)

    async def block(self, sale: Sale, problem: str) -> Sale:
        """Block a sale that was ready, so that it does not open."""

        def write(connection: Connection) -> bool:
            changes: dict[str, object] = {"state": SaleState.LOADING, "problem": problem}
            return update_sale_if(connection, sale, changes, now=self._database.now_ms(connection))

        if await self._database.write(write):
            log.error("sale_blocked", sale_id=sale.sale_id, sku_id=sale.sku_id, problem=problem)
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
        """Apply the rules of the sale's row to the gate, and return that row."""
        applied = None
        while True:
            current, in_sale = await self._database.read(
                lambda c: (find_sale(c, sale.sale_id), sale_of_pool(c, sale.sku_id))
            )
            if current is None or current.rules == applied:
                return current or sale
            # The pool of a closed sale may be in another sale by now, whose rules must not change.
            if current.state is SaleState.CLOSED and in_sale != current.sale_id:
                return current
            verdict = await self._apply(current, Provision(None, current.rules))
            if verdict.outcome is Outcome.POOL_NOT_FOUND and current.state is SaleState.LOADING:
                return current
            if not verdict.outcome.is_success:
                raise Unavailable(f"the pool {sale.sku_id} rejected its rules: {verdict.outcome}")
            applied = current.rules

    async def _apply(self, sale: Sale, command: Provision) -> Verdict:
        try:
            async with asyncio.timeout(GATE_S):
                [verdict] = await self._gate.apply(sale.sku_id, [command])
        except TimeoutError as exc:
            raise OutcomeUnknown(f"the pool {sale.sku_id} did not answer in time") from exc
        if verdict.outcome is Outcome.NOT_READY:
            raise Unavailable(f"the pool {sale.sku_id} is not ready")
        return verdict
