"""Reserving units of a pool for an owner, by a service."""

import asyncio

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.pool import is_sku_id
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher


class ReserveUnits:
    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    def start(
        self,
        sku_id: str,
        owner_id: str,
        quantity: int,
        *,
        min_quantity: int | None,
        ttl_ms: int,
        key: str | None,
        tier: int = 0,
    ) -> Verdict | asyncio.Future[Verdict] | None:
        """The batcher's future, or the verdict if it is cached. None: no pool can have this ID."""
        if not is_sku_id(sku_id):
            return None
        least = quantity if min_quantity is None else min_quantity
        refused: Verdict | asyncio.Future[Verdict | None] | None
        if key is None:
            refused = self._batcher.cached_refusal(sku_id)
        else:
            refused = self._batcher.cached_refusal_with_key(sku_id, owner_id, least, tier=tier)
        if isinstance(refused, Verdict):
            return refused
        command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, quantity, least, ttl_ms, key, tier)
        if refused is not None:
            return asyncio.ensure_future(self._confirm(sku_id, command, refused))
        return self._batcher.submit(sku_id, command)

    async def _confirm(self, sku_id: str, command: Reserve, refused: "asyncio.Future[Verdict | None]") -> Verdict:
        return await refused or await self._batcher.submit(sku_id, command)
