"""Drives sales from creation to their end, and resumes what an interrupted process left behind.

Every pass resumes sales that were left loading; checks those that open within half a minute once more, and blocks a
sale whose gate and ledger differ; emits, once, that a sale has opened or ended; and makes the gate enforce the rules of
each sale, in case the process that changed them died before it reached the gate, or the pool's rules were changed
directly. Several may run: a sale that one has written since the other read it is left for the next pass.
"""

import structlog
from sqlalchemy import Connection

from holdfast.domain.sale.sale import Sale, SaleState
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_lists import SaleAndPool, sales_to_look_after, update_sale_if
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent
from holdfast.runtime.log import log_failure
from holdfast.sales.inspection import Inspector
from holdfast.sales.loading import Loader
from holdfast.sales.operations import close_sale

log = structlog.get_logger()

PASS_INTERVAL_S = 0.5
CHECK_BEFORE_MS = 30_000
# A change to a sale reaches the gate immediately, and with Redis the ledger has it within a second.
APPLYING_TAKES_MS = 5_000
CLOSED_KEPT_MS = 600_000


class SaleLifecycle:
    def __init__(self, database: Database, loader: Loader, inspector: Inspector) -> None:
        self._database = database
        self._loader = loader
        self._inspector = inspector
        self._checked: dict[str, int] = {}

    def agent(self) -> Agent[None]:
        return Agent("sale_lifecycle", self.pass_once, PASS_INTERVAL_S, longest_pass_s=THOROUGH_PASS_S)

    async def pass_once(self) -> None:
        now, found = await self._database.read(self._read)
        for one in found:
            await self._advance_or_log(one, now)
        open_ids = {one.sale.sale_id for one in found}
        self._checked = {sale_id: at for sale_id, at in self._checked.items() if sale_id in open_ids}

    def _read(self, connection: Connection) -> tuple[int, list[SaleAndPool]]:
        now = self._database.now_ms(connection)
        return now, sales_to_look_after(connection, now - CLOSED_KEPT_MS)

    async def _advance_or_log(self, one: SaleAndPool, now: int) -> None:
        """A sale that fails must not block the others."""
        try:
            await self._advance(one, now)
        except Exception as exc:
            log_failure("sale_lifecycle_failed", exc, sale_id=one.sale.sale_id)

    async def _advance(self, one: SaleAndPool, now: int) -> None:
        sale, is_over = one.sale, one.sale.ends_at is not None and now >= one.sale.ends_at
        if sale.state is not SaleState.CLOSED and is_over:
            await self._end(sale, now)
        elif sale.state is SaleState.LOADING:
            await self._loader.resume(sale, now)
        elif sale.state is SaleState.READY and sale.starts_at <= now and sale.opened_at is None:
            await self._emit_opened(sale, now)
        elif sale.state is SaleState.READY and now < sale.starts_at <= now + CHECK_BEFORE_MS:
            await self._check(sale)
        elif one.pool is not None and one.pool.rules != sale.rules and sale.updated_at < now - APPLYING_TAKES_MS:
            log.warning("sale_enforced", sale_id=sale.sale_id, sku_id=sale.sku_id)
            await self._loader.enforce(sale)

    async def _end(self, sale: Sale, now: int) -> None:
        if sale.opened_at is None and sale.state is SaleState.READY:
            await self._emit_opened(sale, now)
        elif await self._database.write(lambda c: close_sale(c, sale, now)):
            await self._loader.enforce(sale)

    async def _emit_opened(self, sale: Sale, now: int) -> None:
        await self._database.write(lambda c: update_sale_if(c, sale, {"opened_at": now}, now=now, event="sale.opened"))

    async def _check(self, sale: Sale) -> None:
        """Once for each start time, which may change."""
        if self._checked.get(sale.sale_id) == sale.starts_at:
            return
        problem = await self._inspector.problem_of(sale)
        if problem is not None:
            await self._loader.block(sale, problem)
        self._checked[sale.sale_id] = sale.starts_at
