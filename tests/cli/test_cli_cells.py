"""`holdfast cells`: what is where, a cell for one SKU alone, and a move to another."""

from pathlib import Path

import pytest
from cli_running import Here

from databases import new_sqlite_database
from holdfast.bootstrap.cells import moving

pytest_plugins = ("cli_fixtures",)


def test_a_sku_is_pinned_to_a_cell_that_nothing_else_is_sold_in(here: Here, tmp_path: Path, database_url: str) -> None:
    """The control database on each engine."""
    urls = {name: new_sqlite_database(tmp_path / f"{name}.db") for name in "abc"}
    given = {"DATABASE_URL": database_url, "CELLS": ";".join(f"{name}={url}" for name, url in urls.items())}
    sale = ("--units", "5", "--price", "1", "--currency", "EUR", "--payment", "external")
    assert here("sales", "create", "cold", *sale, DATABASE_URL=urls["a"]).code == 0

    assert "the cell a is in use: cold" in here("cells", "pin", "hot", "a", "--json", **given).refusal
    assert here("cells", "pin", "hot", "b", "--json", **given).json == {"sku_id": "hot", "cell": "b", "pinned": True}
    pinned = here("cells", "pin", "hot", "c", "--json", **given)
    assert "hot is in the cell b" in pinned.refusal
    assert "holdfast cells move hot --to c" in pinned.err
    found = here("cells", "list", "--json", **given).json
    assert [(cell["cell"], cell["pinned"], cell["sku_ids"]) for cell in found["data"]] == [
        ("a", [], []),
        ("b", ["hot"], ["hot"]),
        ("c", [], []),
    ]
    assert here("cells", "unpin", "hot", "--json", **given).json["pinned"] is False
    assert here("cells", "unpin", "nothing", **given).code == 1
    assert here("cells", "pin", "hot", "nowhere", **given).code == 2
    assert "HOLDFAST_CELLS is not set" in here("cells", "list", DATABASE_URL=database_url).err


def test_a_sku_is_moved_with_a_sale_that_has_not_begun(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "SERVERS_KNOW_S", 0)
    urls = {name: new_sqlite_database(tmp_path / f"{name}.db") for name in ("a", "b", "control")}
    given = {"DATABASE_URL": urls.pop("control"), "CELLS": ";".join(f"{name}={url}" for name, url in urls.items())}
    assert here("cells", "pin", "hot", "a", **given).code == 0
    sale = ("--units", "5", "--price", "1", "--currency", "EUR", "--payment", "external")
    assert (
        here("sales", "create", "hot", *sale, "--starts-at", "2099-01-01T00:00:00Z", DATABASE_URL=urls["a"]).code == 0
    )

    assert "cold is no SKU" in here("cells", "move", "cold", "--to", "b", "--json", **given).refusal
    assert here("cells", "move", "hot", "--to", "nowhere", **given).code == 2
    moved = here("cells", "move", "hot", "--to", "b", "--json", **given)
    assert moved.json == {"sku_id": "hot", "cell": "b", "units": 5, "sale_ids": ["hot"]}
    assert "is in the cell b already" in here("cells", "move", "hot", "--to", "b", "--json", **given).refusal
    found = here("cells", "list", "--json", **given).json
    assert [(cell["cell"], cell["pinned"], cell["sku_ids"]) for cell in found["data"]] == [
        ("a", [], []),
        ("b", [], ["hot"]),
    ]
    for cell, units in {"a": 0, "b": 5}.items():
        [pool] = here("pools", "list", "--json", DATABASE_URL=urls[cell]).json["data"]
        assert (pool["total_units"], pool["available"]) == (units, units)
    assert here("sales", "list", "--json", DATABASE_URL=urls["a"]).json["data"] == []
    assert [one["sale_id"] for one in here("sales", "list", "--json", DATABASE_URL=urls["b"]).json["data"]] == ["hot"]
