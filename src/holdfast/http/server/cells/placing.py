"""Chooses the cell of a new sale or pool.

A SKU is wholly in one cell, so a sale goes where its SKU is. A new SKU goes to the cell that the request names, or to
the emptiest: the one with the fewest sales that are not closed, then with the fewest unsold units. A cell that a pinned
SKU has to itself gets nothing else, named or not. The place is on the map before anything is created there: a
create that is repeated after a failure finds the same cell.
"""

import asyncio
from collections.abc import Mapping

from holdfast.bootstrap.cells.cell_map import CellMap
from holdfast.http.contract import cell_problems, problems
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.drops import DropIn
from holdfast.http.contract.schemas.inventory import PoolIn
from holdfast.http.contract.schemas.money import CreditIn
from holdfast.http.contract.schemas.sales import SaleIn
from holdfast.http.server.cells.cell import Cell
from holdfast.ledger.cells.placement import PlacedElsewhere, PlacedSku, drop_key


class Placing:
    def __init__(self, cells: Mapping[str, Cell], cell_map: CellMap) -> None:
        self._cells, self._map = cells, cell_map

    async def create_sale(self, request: Request, given: SaleIn) -> Answer:
        known = await self._map.find("sale_id", given.sale_id)
        if known is not None:
            return await self._there(known.cell, given.cell, is_moving=known.is_moving).forward(request)
        wanted = given.cell
        if given.drop_id is not None:
            drop = await self._map.find("drop_id", given.drop_id)
            wanted = wanted if drop is None else self._there(drop.cell, wanted, is_moving=False).name
        cell = await self._cell_for(given.sku_id, [given.sale_id], wanted)
        return await cell.forward(request)

    async def create_drop(self, request: Request, given: DropIn) -> Answer:
        """All its sales are in one cell, because they have one room and one limit per buyer."""
        cell = await self._cell_for(drop_key(given.drop_id), [], None)
        return await cell.forward(request)

    async def put_pool(self, request: Request, sku_id: str, _given: PoolIn) -> Answer:
        cell = await self._cell_for(sku_id, [], None)
        return await cell.forward(request)

    async def credit_wallet(self, request: Request, _buyer_id: str, given: CreditIn) -> Answer:
        """A purchase debits the wallet in the transaction of its order, so each cell has wallets of its own."""
        if given.cell is None:
            raise invalid_request({"cell": "each cell has wallets of its own: name the one the buyer will buy in"})
        return await self._named(given.cell).forward(request)

    async def _cell_for(self, sku_id: str, sale_ids: list[str], wanted: str | None) -> Cell:
        if wanted is not None:
            self._named(wanted)
        known = await self._map.find("sku_id", sku_id)
        if known is not None and not sale_ids:
            return self._there(known.cell, wanted, is_moving=known.is_moving)
        if known is None and wanted in self._map.reserved_cells():
            raise invalid_request({"cell": "a pinned SKU has this cell to itself"})
        chosen = wanted or (known.cell if known is not None else await self._emptiest())
        placed = await self._place(sku_id, sale_ids, chosen)
        return self._there(placed.cell, wanted, is_moving=placed.move is not None)

    def _there(self, cell: str, wanted: str | None, *, is_moving: bool) -> Cell:
        if wanted not in (None, cell):
            raise Problem(cell_problems.CELL_MISMATCH, cell=cell)
        if is_moving:
            raise Problem(cell_problems.CELL_MOVING, cell=cell)
        if cell not in self._cells:
            raise Problem(cell_problems.CELL_UNAVAILABLE, cell=cell)
        return self._cells[cell]

    async def _place(self, sku_id: str, sale_ids: list[str], cell: str) -> PlacedSku:
        try:
            return await self._map.place(sku_id, sale_ids, cell)
        except PlacedElsewhere as exc:
            raise Problem(problems.SALE_EXISTS) from exc

    async def _emptiest(self) -> str:
        loads = await asyncio.gather(*[cell.load() for cell in self._cells.values()])
        found = {cell: load for cell, load in zip(self._cells, loads, strict=True) if load is not None}
        if not found:
            raise Problem(problems.NOT_READY, "No cell takes sales now. Nothing was changed; retry shortly.")
        reserved = self._map.reserved_cells()
        free = {cell: load for cell, load in found.items() if cell not in reserved}
        if not free:
            told = "Pinned SKUs have all cells that can be reached to themselves. Nothing was changed."
            raise Problem(problems.NOT_READY, told)
        return min(free, key=lambda cell: free[cell])

    def _named(self, name: str) -> Cell:
        if name not in self._cells:
            raise invalid_request({"cell": f"there is no such cell; there are: {', '.join(self._cells)}"})
        return self._cells[name]
