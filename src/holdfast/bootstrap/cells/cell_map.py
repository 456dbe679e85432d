"""The map of cells as this process knows it: all of it, in memory, at a version.

The control database stores it. Only changes since the known version are read, once a second and when something unknown
is asked for: another server may have just added it, so the read begins after the question. While the control database
is unavailable, the map stays as it is: known sales continue.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from time import monotonic

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.stock.reservation import made_at, sku_of
from holdfast.ledger.cells.own import Owned
from holdfast.ledger.cells.placement import (
    MapChanges,
    PlacedSale,
    PlacedSku,
    adopt,
    drop_key,
    place,
    read_changes,
)
from holdfast.ledger.engine.database import Database
from holdfast.runtime.agent import Agent
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

REFRESH_S = 1.0
# Unknown IDs are mostly typing errors or attacks: one read of the control database answers all that came meanwhile.
RECHECK_S = 0.2
WAITING_MAX = 65_536
# SKUs in one transaction.
ADOPTED_MAX = 500


class Place(Struct, frozen=True):
    cell: str
    is_moving: bool = False


class CellMap:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._skus: dict[str, PlacedSku] = {}
        self._sales: dict[str, PlacedSale] = {}
        self._read_at = float("-inf")
        self.version = 0
        self._reads: KeyedBatcher[None, None] = KeyedBatcher(
            self._read_for_all, batch_max=WAITING_MAX, queue_max=WAITING_MAX, timeout_s=2.0
        )

    def agent(self) -> Agent[None]:
        return Agent("cell_map", self.refresh, REFRESH_S)

    async def refresh(self) -> None:
        self._apply(await self._database.read(partial(read_changes, after=self.version)))
        self._read_at = monotonic()

    def sku(self, sku_id: str) -> PlacedSku | None:
        return self._skus.get(sku_id)

    def sale(self, sale_id: str) -> PlacedSale | None:
        return self._sales.get(sale_id)

    async def find(self, kind: str, name: str) -> Place | None:
        """By the name of a path parameter and its value. Raises `EngineError` if it is unknown and cannot be read."""
        found = self._known(kind, name)
        if found is None:
            await asyncio.sleep(max(0.0, self._read_at + RECHECK_S - monotonic()))
            await self._reads.submit(ONE_QUEUE, None)
            found = self._known(kind, name)
        return found

    def _known(self, kind: str, name: str) -> Place | None:
        if kind == "sale_id":
            sale = self._sales.get(name)
            return None if sale is None else Place(sale.cell, self._is_moving(sale.sku_id, sale.cell))
        if kind in {"sku_id", "drop_id"}:
            sku = self._skus.get(name if kind == "sku_id" else drop_key(name))
            return None if sku is None else Place(sku.cell, sku.move is not None)
        sku = self._skus.get(sku_of(name) or "")
        # A reservation stays where it was made.
        return None if sku is None else Place(sku.cell_at(made_at(name)) if sku.past else sku.cell)

    def _is_moving(self, sku_id: str, cell: str) -> bool:
        sku = self._skus.get(sku_id)
        return sku is not None and sku.move is not None and sku.cell == cell

    async def _read_for_all(self, _queue: str, asked: Sequence[None], /) -> list[None]:
        await self.refresh()
        return [None for _ in asked]

    def reserved_cells(self) -> set[str]:
        """Those that a pinned SKU has to itself."""
        return {placed.cell for placed in self._skus.values() if placed.pinned}

    async def place(self, sku_id: str, sale_ids: Iterable[str], cell: str) -> PlacedSku:
        """Raises `PlacedElsewhere`."""
        placed = await self._database.write(partial(place, sku_id=sku_id, sale_ids=list(sale_ids), cell=cell))
        await self.refresh()
        return placed

    async def adopt(self, cell: str, owned: Owned) -> None:
        """What a cell has and the map has not: cells that were in use before, and a map that was lost."""
        missing = [sku_id for sku_id in owned.sales if self._lacks(sku_id, owned)]
        for first in range(0, len(missing), ADOPTED_MAX):
            await self._database.write(partial(_adopt_all, missing[first : first + ADOPTED_MAX], owned, cell))
        if missing:
            await self.refresh()

    def _lacks(self, sku_id: str, owned: Owned) -> bool:
        known, moved = self._skus.get(sku_id), owned.moved.get(sku_id)
        is_behind = known is None or (moved is not None and moved.is_newer_than(known))
        return is_behind or any(sale_id not in self._sales for sale_id in owned.sales[sku_id])

    def _apply(self, changes: MapChanges) -> None:
        for placed in changes.skus:
            self._skus[placed.sku_id] = placed
        for sale in changes.sales:
            self._sales[sale.sale_id] = sale
        self.version = changes.version


def _adopt_all(sku_ids: Sequence[str], owned: Owned, cell: str, connection: Connection) -> None:
    for sku_id in sku_ids:
        adopt(connection, sku_id, owned.sales[sku_id], cell, owned.moved.get(sku_id))
