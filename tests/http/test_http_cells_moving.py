"""A SKU is moved to another cell between its sales, while a server serves both cells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_cells import Site, cell_settings, open_site

from databases import new_postgres_database, new_sqlite_database
from holdfast.bootstrap.cells import moving
from holdfast.bootstrap.cells.moving import CannotMove, CellMover
from holdfast.bootstrap.cells.sites import Site as Opened
from holdfast.bootstrap.cells.sites import sites_of
from holdfast.domain.stock.command import Command, Provision, Restock
from holdfast.domain.stock.outcome import Outcome
from holdfast.ledger.cells.placement import Amounts, set_pinned
from holdfast.settings import Settings
from holdfast.verify.prove import prove
from valkeys import ValkeyProcess

LATER = "2099-01-01T00:00:00Z"
STEPS = ["announced", "drained", "taken", "given", "copied", "verified", "removed"]


class Interrupted(Exception):
    pass


async def _move(
    site: Site, settings: Settings, to: str, on_step: Callable[[str], None] = lambda _step: None, sku_id: str = "shoe"
) -> Amounts:
    mover = CellMover(site.services.database, sites_of(settings), on_step)
    return await mover.move(sku_id, to, wait_s=0)


async def _ok(site: Site, method: str, path: str, body: object = None, *, buyer: str | None = None) -> Any:
    status, found = await site.ask(method, path, body, buyer=buyer)
    assert status < 300, found
    return found


async def _wait_for_cells(site: Site) -> None:
    """A start does not wait for a cell for longer than three seconds."""
    for _ in range(600):
        status, ready = await site.ask("GET", "/healthz/ready")
        if (status, ready["checks"]["cell a"]["ok"], ready["checks"]["cell b"]["ok"]) == (200, True, True):
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(ready)


async def _sell_one(site: Site, sale_id: str, buyer: str) -> str:
    status, granted = await site.buy(sale_id, buyer)
    assert status == 201, granted
    reservation_id: str = granted["reservation_id"]
    await _ok(site, "POST", f"/v1/reservations/{reservation_id}/confirm")
    return reservation_id


async def _is_proven(settings: Settings) -> None:
    for cell in "ab":
        async with sites_of(settings)(cell) as opened:
            findings = await opened.database.read(prove)
            assert [finding for finding in findings if finding.count] == []


async def _totals(settings: Settings) -> dict[str, tuple[int, int]]:
    """By cell: what its pool has in all, and what it has sold."""
    found = {}
    for cell in "ab":
        async with sites_of(settings)(cell) as opened:
            stock = await opened.stock("shoe")
            found[cell] = (0, 0) if stock is None else (stock.total, stock.sold)
    return found


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test reads the map itself where a server would within a second."""
    monkeypatch.setattr(moving, "SERVERS_KNOW_S", 0)


@pytest.fixture(params=["sqlite to postgresql", "redis to sqlite"])
def cells(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, steady_valkey: ValkeyProcess
) -> dict[str, str]:
    if request.param == "sqlite to postgresql":
        return {"a": new_sqlite_database(tmp_path / "a.db"), "b": new_postgres_database(postgres_url)}
    steady_valkey.command("FLUSHALL")
    with_redis = f"{new_postgres_database(postgres_url)}|{steady_valkey.url}"
    return {"a": with_redis, "b": new_sqlite_database(tmp_path / "b.db")}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return cell_settings(tmp_path, **{name: new_sqlite_database(tmp_path / f"{name}.db") for name in "ab"})


@pytest.mark.slow
async def test_what_was_sold_stays_and_is_found_and_the_rest_is_sold_in_the_new_cell(
    tmp_path: Path, cells: dict[str, str]
) -> None:
    settings = cell_settings(tmp_path, **cells)
    async with open_site(settings, background=True) as site:
        await _wait_for_cells(site)
        await site.sell("first", sku_id="shoe", cell="a")
        before = await _sell_one(site, "first", "ada")
        with pytest.raises(CannotMove, match="the sale first is open"):
            await _move(site, settings, "b")
        await _ok(site, "POST", "/v1/sales/first/close")

        moved = await _move(site, settings, "b")
        assert (moved.units, moved.stays) == (4, 1)
        await site.app.cell_map.refresh()
        assert (await site.sell("second", sku_id="shoe", total_units=4))["cell"] == "b"
        after = [await _sell_one(site, "second", buyer) for buyer in ("ada", "bob", "cy", "dee")]
        status, problem = await site.buy("second", "eve")
        assert (status, problem["reason"]) == (409, "sold_out")

        for reservation_id in (before, *after):
            found = await _ok(site, "GET", f"/v1/reservations/{reservation_id}")
            assert found["status"] == "confirmed"
        orders = await _ok(site, "GET", "/v1/orders", buyer="ada")
        assert [order["sale_id"] for order in orders["data"]] == ["second", "first"]
        assert (await _ok(site, "GET", "/v1/sales/first"))["cell"] == "a"
    assert await _totals(settings) == {"a": (1, 1), "b": (4, 4)}
    await _is_proven(settings)


async def test_a_sale_that_has_not_begun_goes_with_its_room_and_its_restocks(settings: Settings) -> None:
    lottery = {"mode": "lottery", "rate_per_second": 10, "pass_seconds": 300}
    async with open_site(settings) as site:
        await site.sell("second", sku_id="shoe", cell="a", starts_at=LATER, room=lottery)
        before = await _ok(site, "GET", "/v1/sales/second")
        seed = (await _ok(site, "GET", "/v1/sales/second/now"))["lottery"]["seed_hash"]
        restock = ("POST", "/v1/sales/second/restock", {"units": 2})
        await _ok(site, *restock)

        assert (await _move(site, settings, "b")).sale_ids == ["second"]
        await site.app.cell_map.refresh()
        after = await _ok(site, "GET", "/v1/sales/second")
        assert after["cell"] == "b"
        changed = {name for name, value in before.items() if value != after[name]}
        assert changed == {"cell", "total_units", "available", "updated_at"} & before.keys()
        assert (await _ok(site, "GET", "/v1/sales/second/now"))["lottery"]["seed_hash"] == seed
        # The same key as before: nothing is added.
        await _ok(site, *restock)
        assert (await _ok(site, "GET", "/v1/inventory/shoe/available"))["available"] == 7
        listed = await _ok(site, "GET", "/v1/sales")
        assert [(sale["sale_id"], sale["cell"]) for sale in listed["data"]] == [("second", "b")]
    await _is_proven(settings)


async def test_a_move_that_is_interrupted_after_any_step_is_continued_and_nothing_is_lost(settings: Settings) -> None:
    """Back and forth, interrupted at another step each time."""
    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        await _sell_one(site, "first", "ada")
        await _ok(site, "POST", "/v1/sales/first/close")
        await _move(site, settings, "b")
        await site.app.cell_map.refresh()
        await site.sell("second", sku_id="shoe", total_units=4, starts_at=LATER)
        for number, stop in enumerate(STEPS):

            def on_step(step: str, stop: str = stop) -> None:
                if step == stop:
                    raise Interrupted

            to = "ab"[number % 2]
            with pytest.raises(Interrupted):
                await _move(site, settings, to, on_step)
            await site.app.cell_map.refresh()
            status, problem = await site.ask("GET", "/v1/sales/second")
            assert (status, problem["reason"]) == (503, "cell_moving")
            with pytest.raises(CannotMove, match=f"is being moved to the cell {to}"):
                await _move(site, settings, "ab"[(number + 1) % 2])

            await _move(site, settings, to)
            await site.app.cell_map.refresh()
            assert (await _ok(site, "GET", "/v1/sales/second"))["cell"] == to
            totals = await _totals(settings)
            assert (totals[to][0] - totals[to][1], sum(total for total, _ in totals.values())) == (4, 5)
            assert (await _ok(site, "GET", "/v1/inventory/shoe/available"))["available"] == 4
    await _is_proven(settings)


class Stopped(Opened, frozen=True, eq=False):
    """A cell to which the units are given late."""

    is_reached: asyncio.Event
    may_go_on: asyncio.Event

    async def apply(self, sku_id: str, command: Command) -> Outcome:
        if not self.is_reached.is_set():
            self.is_reached.set()
            await self.may_go_on.wait()
        return await super().apply(sku_id, command)


async def test_of_two_commands_at_once_one_moves_the_units_and_neither_adds_any(settings: Settings) -> None:
    """The first is stopped before it gives the units to the new cell, and goes on when the second has done so."""
    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        await _sell_one(site, "first", "ada")
        await _ok(site, "POST", "/v1/sales/first/close")
        await _move(site, settings, "b")

        is_reached, may_go_on = asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def open_stopped(cell: str) -> AsyncIterator[Opened]:
            async with sites_of(settings)(cell) as opened:
                stopped = Stopped(opened.database, opened.engine, opened.loader, is_reached, may_go_on)
                yield stopped if cell == "a" else opened

        first = asyncio.create_task(CellMover(site.services.database, open_stopped).move("shoe", "a", wait_s=0))
        async with asyncio.timeout(60):
            await is_reached.wait()
        await _move(site, settings, "a")
        may_go_on.set()
        with pytest.raises(CannotMove, match="another command"):
            await first
        assert await _totals(settings) == {"a": (5, 1), "b": (0, 0)}
        await site.app.cell_map.refresh()
        assert (await _ok(site, "GET", "/v1/inventory/shoe/available"))["available"] == 4
    await _is_proven(settings)


async def test_a_command_that_is_interrupted_while_it_waits_moves_nothing(settings: Settings) -> None:
    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        status, _ = await site.buy("first", "ada")
        assert status == 201
        await _ok(site, "POST", "/v1/sales/first/close")
        is_announced = asyncio.Event()
        mover = CellMover(site.services.database, sites_of(settings), lambda _step: is_announced.set())
        moving_ = asyncio.create_task(mover.move("shoe", "b", wait_s=600))
        async with asyncio.timeout(60):
            await is_announced.wait()
        moving_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving_
        await site.app.cell_map.refresh()
        assert (await _ok(site, "GET", "/v1/inventory/shoe/available"))["available"] == 4


async def test_units_that_a_late_server_adds_or_removes_meanwhile_stop_the_move_and_are_neither_lost_nor_doubled(
    settings: Settings,
) -> None:
    def stop(step: str) -> None:
        if step == "drained":
            raise Interrupted

    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        await _sell_one(site, "first", "ada")
        await _ok(site, "POST", "/v1/sales/first/close")
        with pytest.raises(Interrupted):
            await _move(site, settings, "b", stop)
        for change in (-2, 5):
            await _restock(settings, change)
            with pytest.raises(CannotMove, match="units of shoe were added to the cell a or removed"):
                await _move(site, settings, "b")
            assert await _totals(settings) == {"a": (5 + change, 1), "b": (0, 0)}
            await _restock(settings, -change)
        await _move(site, settings, "b")
    assert await _totals(settings) == {"a": (1, 1), "b": (4, 0)}


class Restocked(Opened, frozen=True, eq=False):
    """A cell to which a server that has not read the map adds units, when they are about to be taken."""

    async def apply(self, sku_id: str, command: Command) -> Outcome:
        if isinstance(command, Provision | Restock):
            await super().apply(sku_id, Restock(3))
        return await super().apply(sku_id, command)


async def test_units_that_a_late_server_adds_in_the_moment_they_are_taken_are_not_lost(settings: Settings) -> None:
    @asynccontextmanager
    async def open_restocked(cell: str) -> AsyncIterator[Opened]:
        async with sites_of(settings)(cell) as opened:
            yield Restocked(opened.database, opened.engine, opened.loader) if cell == "a" else opened

    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        await _sell_one(site, "first", "ada")
        await _ok(site, "POST", "/v1/sales/first/close")
        with pytest.raises(CannotMove, match=r"its pool has 4 in all; .* else 1, and repeat"):
            await CellMover(site.services.database, open_restocked).move("shoe", "b", wait_s=0)
        assert await _totals(settings) == {"a": (4, 1), "b": (0, 0)}
        await _restock(settings, -3)
        await _move(site, settings, "b")
    assert await _totals(settings) == {"a": (1, 1), "b": (4, 0)}


async def _restock(settings: Settings, units: int) -> None:
    """As a server that has not read the map."""
    async with sites_of(settings)("a") as opened:
        assert await opened.apply("shoe", Restock(units)) is Outcome.MOVED


async def test_a_move_that_cannot_be_made_changes_nothing(settings: Settings) -> None:
    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        status, granted = await site.buy("first", "ada")
        assert status == 201
        await _ok(site, "POST", "/v1/sales/first/close")
        with pytest.raises(CannotMove, match="1 unit is held"):
            await _move(site, settings, "b")
        await site.app.cell_map.refresh()
        path = f"/v1/reservations/{granted['reservation_id']}"
        assert (await _ok(site, "GET", path, buyer="ada"))["status"] == "active"
        await _ok(site, "DELETE", path, buyer="ada")

        fifo = {"mode": "fifo", "rate_per_second": 10, "pass_seconds": 300}
        await site.sell("line", cell="a", starts_at=LATER, room=fifo)
        await _ok(site, "POST", "/v1/sales/line/queue", {}, buyer="ada")
        with pytest.raises(CannotMove, match="joined the line of the sale line"):
            await _move(site, settings, "b", sku_id="line")
        await _ok(site, "POST", "/v1/drops", {"drop_id": "spring", "name": "Spring", "starts_at": LATER})
        cell = (await site.sell("part", drop_id="spring", starts_at=LATER))["cell"]
        other = "b" if cell == "a" else "a"
        with pytest.raises(CannotMove, match=r"part of the drop spring.* create a new drop, close this sale"):
            await _move(site, settings, other, sku_id="part")
        await site.services.database.write(lambda c: set_pinned(c, "hot", "b", pinned=True))
        with pytest.raises(CannotMove, match="hot has the cell b to itself"):
            await _move(site, settings, "b")
        with pytest.raises(CannotMove, match="is in the cell a already"):
            await _move(site, settings, "a")
        with pytest.raises(CannotMove, match="is in no cell"):
            await _move(site, settings, "b", sku_id="unknown")
    assert await _totals(settings) == {"a": (5, 0), "b": (0, 0)}


@pytest.mark.parametrize("first", "ab")
async def test_a_map_that_was_lost_knows_again_what_was_moved(settings: Settings, tmp_path: Path, first: str) -> None:
    async with open_site(settings) as site:
        await site.sell("first", sku_id="shoe", cell="a")
        sold = await _sell_one(site, "first", "ada")
        await _ok(site, "POST", "/v1/sales/first/close")
        await _move(site, settings, "b")
    order = sorted("ab", reverse=first == "b")
    urls = dict(part.split("=", 1) for part in settings.cells.split(";"))
    (tmp_path / "other").mkdir()
    async with open_site(cell_settings(tmp_path / "other", **{name: urls[name] for name in order})) as site:
        assert (await _ok(site, "GET", f"/v1/reservations/{sold}"))["status"] == "confirmed"
        assert (await _ok(site, "GET", "/v1/sales/first"))["cell"] == "a"
        assert (await _ok(site, "GET", "/v1/inventory/shoe/available"))["available"] == 4
        assert (await site.sell("second", sku_id="shoe", total_units=4))["cell"] == "b"
        await _sell_one(site, "second", "ada")
