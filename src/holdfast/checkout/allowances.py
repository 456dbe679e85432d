"""The limit of units that a buyer may have in all sales of a drop together."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic

from holdfast.checkout.claims import decided
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.errors import Busy
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.allowances import UNDECIDED_MS, Exceeded, claim_units, set_claimed

# A process that was paused for longer between its claim and the gate must not continue: its claim may have expired.
BEGUN_WITHIN_S = UNDECIDED_MS / 1000 / 5


class Allowances:
    def __init__(self, database: Database, catch_up: Callable[[str | None], Awaitable[object]]) -> None:
        self._database = database
        self._catch_up = catch_up

    def reserve(
        self, sale: Sale, command: Reserve, decide: Callable[[], Awaitable[Verdict]]
    ) -> Awaitable[Verdict | Exceeded]:
        """What the gate decides, if the units are within the limit of the drop."""
        return decide() if sale.drop_id is None else self._reserve_in_drop(sale, command, decide)

    async def _reserve_in_drop(
        self, sale: Sale, command: Reserve, decide: Callable[[], Awaitable[Verdict]]
    ) -> Verdict | Exceeded:
        began = monotonic()
        exceeded = await self._claim(sale, command)
        if exceeded is not None:
            return exceeded
        if monotonic() - began > BEGUN_WITHIN_S:
            raise Busy("the purchase was claimed too long ago")
        return await decided(command, decide, self._set)

    async def _claim(self, sale: Sale, command: Reserve) -> Exceeded | None:
        """Before a refusal the ledger is brought up to date: it may still count returned units, and old claims
        without a reservation."""
        exceeded = await self._try(sale, command, 0)
        if exceeded is None or not exceeded.sku_ids:
            return exceeded
        lost_before = await self._database.read(self._database.now_ms) - UNDECIDED_MS
        await asyncio.gather(*[self._catch_up(sku_id) for sku_id in sorted(exceeded.sku_ids)])
        return await self._try(sale, command, lost_before)

    async def _try(self, sale: Sale, command: Reserve, lost_before: int) -> Exceeded | None:
        return await self._database.write(
            lambda c: claim_units(c, sale, command, now=self._database.now_ms(c), lost_before=lost_before)
        )

    async def _set(self, reservation_id: str, units: int) -> None:
        await self._database.write(partial(set_claimed, reservation_id=reservation_id, units=units))
