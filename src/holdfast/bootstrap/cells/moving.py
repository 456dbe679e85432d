"""Moves a SKU to another cell between its sales: drain, copy, verify, switch.

The model. What was sold stays, with its reservations, orders and closed sales: the map keeps the time until when the
SKU was in the old cell, and reservations made before are looked for there. The free units and the sales that have not
begun go to the new cell. Nothing is moved while a sale is open or about to open, or while somebody is in its line.

The steps. The map says that the SKU is being moved, so that servers refuse everybody (503 `cell_moving`). Held units
are waited for. The amounts are written to the map. The units leave the old pool, and only then enter the new one, so
that they can never be sold twice. Both cells note where the SKU is from now on. The sales are copied, loaded, and
compared.
The old copies are removed. The map is switched.

What happens when it fails. Before the amounts are written, the move is abandoned and all is as before. After that, the
same command continues: each step looks whether it was done. Until the switch, nobody is served; nothing is lost.

Two commands at the same time. The map is only changed as it was last read, so the amounts are counted once, and nothing
is copied for a move that has ended. The units are all that is free in the old pool, so they can be taken once; the new
pool is given its total, so to do it twice is to do it once.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic

from sqlalchemy import Connection

from holdfast.bootstrap.cells.sites import OpenSite, Site
from holdfast.domain.sale.sale import SaleState
from holdfast.domain.stock.command import Expire, Provision, Restock
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool, Rules
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.cells.placement import (
    Amounts,
    Move,
    PlacedSku,
    change_move,
    end_move,
    find_sku,
    note_move,
    read_changes,
)
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_copies import (
    last_made_at,
    live_sale_ids,
    obstacle_to_moving,
    read_copy,
    remove_copy,
    write_copy,
)
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.splits import names_of

# Servers read the map once a second (`cell_map.py`). What they began before has this long to end.
SERVERS_KNOW_S = 2.0
POLL_S = 0.5
EXPIRED_AT_ONCE = 10_000


class CannotMove(Exception):
    """Nothing was changed; or, if it says so, the same command continues."""


def _at_it(sku_id: str) -> CannotMove:
    return CannotMove(f"another command moves {sku_id}: wait for it, or repeat this one to continue")


class CellMover:
    def __init__(
        self, control: Database, open_site: OpenSite, on_step: Callable[[str], None] = lambda _step: None
    ) -> None:
        self._control, self._open_site, self._on_step = control, open_site, on_step

    async def move(self, sku_id: str, to: str, *, wait_s: float) -> Amounts:
        """Raises `CannotMove`."""
        placed = await self._find(sku_id, to)
        async with self._open_site(placed.cell) as old, self._open_site(to) as new:
            if placed.move is None or placed.move.amounts is None:
                placed = await self._drain(placed, to, old, new, wait_s)
            assert placed.move is not None
            assert placed.move.amounts is not None
            amounts = placed.move.amounts
            moved = placed.moved(placed.move, amounts)
            await self._hand_over(placed, moved, amounts, old, new)
            for sale_id in amounts.sale_ids:
                await self._ensure_unchanged(placed)
                await self._copy(sku_id, sale_id, old, new)
            await self._verify(sku_id, amounts, new)
            self._on_step("verified")
            await self._ensure_unchanged(placed)
            await self._remove(sku_id, amounts, old)
            self._on_step("removed")
            await self._control.write(partial(end_move, placed=placed, moved=moved, sale_ids=amounts.sale_ids))
            return amounts

    async def _change(self, placed: PlacedSku, move: Move | None) -> PlacedSku:
        changed = await self._control.write(partial(change_move, placed=placed, move=move))
        if changed is None:
            raise _at_it(placed.sku_id)
        return changed

    async def _ensure_unchanged(self, placed: PlacedSku) -> None:
        if await self._control.read(partial(find_sku, sku_id=placed.sku_id)) != placed:
            raise _at_it(placed.sku_id)

    async def _find(self, sku_id: str, to: str) -> PlacedSku:
        placed = await self._control.read(partial(find_sku, sku_id=sku_id))
        if placed is None:
            raise CannotMove(f"{sku_id} is in no cell")
        if placed.move is not None and placed.move.to != to:
            raise CannotMove(f"{sku_id} is being moved to the cell {placed.move.to}: continue that first")
        if placed.cell == to:
            raise CannotMove(f"{sku_id} is in the cell {to} already")
        changes = await self._control.read(partial(read_changes, after=0))
        for other in changes.skus:
            if other.pinned and other.cell == to:
                raise CannotMove(f"{other.sku_id} has the cell {to} to itself")
        return placed

    # --- drain

    async def _drain(self, placed: PlacedSku, to: str, old: Site, new: Site, wait_s: float) -> PlacedSku:
        """Until nothing is held. From now on servers refuse everybody; without success all is as before."""
        sku_id = placed.sku_id
        try:
            await self._refuse_obstacle(sku_id, old)
            placed = await self._change(placed, Move(to))
            self._on_step("announced")
            await asyncio.sleep(SERVERS_KNOW_S)
            await self._wait_for_holds(sku_id, old, wait_s)
            await self._refuse_obstacle(sku_id, old)
            amounts = await self._amounts(placed, old, new)
        except (CannotMove, EngineError, asyncio.CancelledError):
            # Also if somebody does not want to wait and interrupts the command.
            await self._control.write(partial(change_move, placed=placed, move=None))
            raise
        placed = await self._change(placed, Move(to, amounts))
        self._on_step("drained")
        return placed

    async def _refuse_obstacle(self, sku_id: str, old: Site) -> None:
        obstacle = await old.database.read(lambda c: obstacle_to_moving(c, sku_id, old.database.now_ms(c)))
        if obstacle is not None:
            raise CannotMove(f"{sku_id} cannot be moved now: {obstacle}")

    async def _wait_for_holds(self, sku_id: str, old: Site, wait_s: float) -> None:
        until = monotonic() + wait_s
        while True:
            await old.apply(sku_id, Expire(EXPIRED_AT_ONCE))
            stock = await old.stock(sku_id)
            if stock is None or stock.held == 0:
                return
            if monotonic() >= until:
                units = "1 unit is" if stock.held == 1 else f"{stock.held} units are"
                raise CannotMove(f"{sku_id} cannot be moved now: {units} held or being paid for")
            await asyncio.sleep(POLL_S)

    async def _amounts(self, placed: PlacedSku, old: Site, new: Site) -> Amounts:
        sku_id = placed.sku_id
        stock, there = await old.stock(sku_id), await new.stock(sku_id)
        if stock is None:
            raise CannotMove(f"{sku_id} has no pool in the cell {placed.cell}")
        units = stock.total - stock.sold
        pool = await self._pool(sku_id, old)
        until = await old.database.read(partial(last_made_at, sku_id=sku_id)) + 1
        sale_ids = await old.database.read(partial(live_sale_ids, sku_id=sku_id))
        before = there.total if there is not None else 0
        return Amounts(units, stock.sold, before + units, pool.rules, until, sale_ids)

    async def _pool(self, sku_id: str, site: Site) -> Pool:
        """As the gate has it, which is ahead of the ledger where Redis decides."""
        view = (await site.engine.look_at([sku_id]))[sku_id]
        if isinstance(view, Unavailable):
            raise view
        return view.pool

    # --- copy

    async def _hand_over(self, placed: PlacedSku, moved: PlacedSku, amounts: Amounts, old: Site, new: Site) -> None:
        """The units leave the old pool before they enter the new one."""
        sku_id, units = moved.sku_id, amounts.units
        there = await new.stock(sku_id)
        total = before = (await self._pool(sku_id, old)).total
        if units and total == amounts.stays + units:
            # Not by setting the total, which would lose what a server adds in this moment.
            outcome = await old.apply(sku_id, Restock(-units))
            total = (await self._pool(sku_id, old)).total
            if outcome is not Outcome.MOVED and total == before:
                await self._change(placed, Move(moved.cell))
                raise CannotMove(f"units of {sku_id} were reserved meanwhile: repeat the command to continue")
        if total != amounts.stays:
            raise CannotMove(
                f"units of {sku_id} were added to the cell {placed.cell} or removed meanwhile: its pool has "
                f"{total:,} in all; set {amounts.stays + units:,} if the move had not taken its units yet, "
                f"else {amounts.stays:,}, and repeat"
            )
        self._on_step("taken")
        await self._ensure_unchanged(placed)
        for site in (old, new):
            await site.write(lambda c, _now: note_move(c, moved))
        if there is None:
            await new.apply(sku_id, Provision(units, amounts.rules, only_if_missing=True))
        elif units and there.total < amounts.total:
            await new.apply(sku_id, Provision(amounts.total, amounts.rules))
        self._on_step("given")
        if not amounts.sale_ids:
            await new.apply(sku_id, Provision(None, amounts.rules))

    async def _copy(self, sku_id: str, sale_id: str, old: Site, new: Site) -> None:
        copy = await old.database.read(partial(read_copy, sale_id=sale_id))
        sale = await old.database.read(partial(find_sale, sale_id=sale_id))
        if sale is not None:
            await new.engine.catch_up(sku_id)
            await new.loader.take_over(sale)
            await new.write(lambda c, now: write_copy(c, sku_id, sale_id, copy, now))
        self._on_step("copied")
        written = await new.database.read(partial(find_sale, sale_id=sale_id))
        if written is None:
            raise CannotMove(f"there is no copy of the sale {sale_id}")
        loaded = await new.loader.load(written)
        if loaded.sale.state is not SaleState.READY:
            raise CannotMove(f"the copy of the sale {sale_id} is not ready: {loaded.sale.problem}; repeat to continue")

    # --- verify and switch

    async def _verify(self, sku_id: str, amounts: Amounts, new: Site) -> None:
        """That gate and ledger of the new cell agree, reservation by reservation, and that all units are there."""
        for name in await new.database.read(partial(names_of, sku_id=sku_id)):
            report = await new.engine.reconciler.examine(name)
            finding = "missing" if report is None else report.finding
            if finding is not None:
                raise CannotMove(f"the pool {name} is inconsistent in the new cell ({finding}): repeat to continue")
        stock = await new.stock(sku_id)
        if stock is None or stock.total < amounts.total:
            raise CannotMove(f"the pool {sku_id} lacks units in the new cell: repeat to continue")

    async def _remove(self, sku_id: str, amounts: Amounts, old: Site) -> None:
        """The old pool stays with what was sold from it, and is paused."""

        def remove(connection: Connection, now: int) -> None:
            for sale_id in amounts.sale_ids:
                remove_copy(connection, sku_id, sale_id, now)

        await old.write(remove)
        await old.apply(sku_id, Provision(None, Rules(paused=True)))
