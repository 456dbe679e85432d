"""Reserving units of a pool for an owner, by a service."""

import asyncio

from holdfast.checkout.allowances import Allowances
from holdfast.checkout.replays import Replays
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import is_sku_id
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.sales.catalogue import Catalogue


class ReserveUnits:
    def __init__(self, batcher: Batcher, drops: "DropReserves | None" = None) -> None:
        self._batcher = batcher
        self._drops = drops

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
        if self._drops is not None and (sale := self._drops.sale_of(sku_id)) is not None:
            return asyncio.ensure_future(self._drops.reserve(sale, command))
        if refused is not None:
            return asyncio.ensure_future(self._confirm(sku_id, command, refused))
        return self._batcher.submit(sku_id, command)

    async def _confirm(self, sku_id: str, command: Reserve, refused: "asyncio.Future[Verdict | None]") -> Verdict:
        return await refused or await self._batcher.submit(sku_id, command)


class DropReserves:
    """Pools in sales of a drop, whose limit across its sales holds for services too."""

    def __init__(self, batcher: Batcher, catalogue: Catalogue, allowances: Allowances, replays: Replays) -> None:
        self._batcher = batcher
        self._allowances = allowances
        self._replays = replays
        self.sale_of = catalogue.drop_sale_of

    async def reserve(self, sale: Sale, command: Reserve) -> Verdict:
        verdict = await self._allowances.reserve(sale, command, lambda: self._batcher.submit(sale.sku_id, command))
        if isinstance(verdict, Verdict):
            return verdict
        before = Verdict(Outcome.BUYER_LIMIT) if command.key is None else await self._replays.find(sale, command)
        return Verdict(Outcome.BUYER_LIMIT) if before.outcome is Outcome.ENDED else before
