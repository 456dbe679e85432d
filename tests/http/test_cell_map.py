"""The map of cells as a server knows it."""

import asyncio

import pytest

from holdfast.bootstrap.cells.cell_map import CellMap, Place
from holdfast.ledger.engine.database import Database


async def test_what_another_server_has_just_placed_is_found_at_once(database: Database) -> None:
    ours, theirs = CellMap(database), CellMap(database)
    await ours.refresh()
    await theirs.place("sku", ["drop"], "b")
    assert await ours.find("sale_id", "drop") == Place("b")


async def test_many_unknown_names_are_one_question_to_the_control_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell_map, reads = CellMap(database), 0
    await cell_map.refresh()

    async def refresh() -> None:
        nonlocal reads
        reads += 1

    monkeypatch.setattr(cell_map, "refresh", refresh)
    found = await asyncio.gather(*[cell_map.find("sale_id", f"unknown-{n}") for n in range(500)])
    assert set(found) == {None}
    assert reads <= 2
