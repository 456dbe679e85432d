"""Looks after sales from their making to their end, whoever began and was interrupted.

Every pass it takes up sales that somebody left loading; checks those that open in half a minute once more, and shuts
the door of one whose gate and ledger differ; tells the world, once, that a sale has opened or ended; and has the gate
keep to the rules of each sale, should whoever changed them have died before the gate was told, or somebody have changed
them behind the sale's back. Several stewards may run: a sale that one has written since the other read it is left for
the next pass.
"""

import asyncio

import structlog
from sqlalchemy import Connection

from holdfast.domain.sale import Sale, SaleState
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.sale_lists import SaleAndPool, sales_to_look_after, update_sale_if
from holdfast.sales.inspection import Inspector
from holdfast.sales.loading import Loader
from holdfast.sales.office import close_sale

log = structlog.get_logger()

PASS_INTERVAL_S = 0.5
CHECK_BEFORE_MS = 30_000
# Whoever has written a sale tells the gate at once, and where Redis is the gate the ledger hears of it within a second.
TELLING_TAKES_MS = 5_000
CLOSED_KEPT_MS = 600_000


class Steward:
    def __init__(self, database: Database, loader: Loader, inspector: Inspector) -> None:
        self._database = database
        self._loader = loader
        self._inspector = inspector
        self._checked: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.pass_once()
            except EngineError as exc:
                log.warning("steward_pass_failed", error=str(exc))
            except Exception:
                log.exception("steward_pass_failed")
            await asyncio.sleep(PASS_INTERVAL_S)

    async def pass_once(self) -> None:
        now, found = await self._database.read(self._look)
        for one in found:
            await self._look_after_or_tell(one, now)
        open_ids = {one.sale.sale_id for one in found}
        self._checked = {sale_id: at for sale_id, at in self._checked.items() if sale_id in open_ids}

    def _look(self, connection: Connection) -> tuple[int, list[SaleAndPool]]:
        now = self._database.now_ms(connection)
        return now, sales_to_look_after(connection, now - CLOSED_KEPT_MS)

    async def _look_after_or_tell(self, one: SaleAndPool, now: int) -> None:
        """One sale that fails must not keep the others waiting for more than its turn."""
        try:
            await self._look_after(one, now)
        except EngineError as exc:
            log.warning("steward_sale_failed", sale_id=one.sale.sale_id, error=str(exc))
        except Exception:
            log.exception("steward_sale_failed", sale_id=one.sale.sale_id)

    async def _look_after(self, one: SaleAndPool, now: int) -> None:
        sale, is_over = one.sale, one.sale.ends_at is not None and now >= one.sale.ends_at
        if sale.state is not SaleState.CLOSED and is_over:
            await self._end(sale, now)
        elif sale.state is SaleState.LOADING:
            await self._loader.take_up(sale, now)
        elif sale.state is SaleState.READY and sale.starts_at <= now and sale.opened_at is None:
            await self._tell_open(sale, now)
        elif sale.state is SaleState.READY and now < sale.starts_at <= now + CHECK_BEFORE_MS:
            await self._check(sale)
        elif one.pool is not None and one.pool.rules != sale.rules and sale.updated_at < now - TELLING_TAKES_MS:
            log.warning("sale_enforced", sale_id=sale.sale_id, sku_id=sale.sku_id)
            await self._loader.enforce(sale)

    async def _end(self, sale: Sale, now: int) -> None:
        if sale.opened_at is None and sale.state is SaleState.READY:
            await self._tell_open(sale, now)
        elif await self._database.write(lambda c: close_sale(c, sale, now)):
            await self._loader.enforce(sale)

    async def _tell_open(self, sale: Sale, now: int) -> None:
        await self._database.write(lambda c: update_sale_if(c, sale, {"opened_at": now}, now=now, event="sale.opened"))

    async def _check(self, sale: Sale) -> None:
        """Once for each start: it may have been moved."""
        if self._checked.get(sale.sale_id) == sale.starts_at:
            return
        problem = await self._inspector.problem_of(sale)
        if problem is not None:
            await self._loader.shut(sale, problem)
        self._checked[sale.sale_id] = sale.starts_at
