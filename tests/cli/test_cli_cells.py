"""`holdfast cells`: what is where, and a cell for one SKU alone."""

from pathlib import Path

from cli_running import Here

from databases import new_sqlite_database

pytest_plugins = ("cli_fixtures",)


def test_a_sku_is_pinned_to_a_cell_that_nothing_else_is_sold_in(here: Here, tmp_path: Path, database_url: str) -> None:
    """The control database on each engine."""
    urls = {name: new_sqlite_database(tmp_path / f"{name}.db") for name in "abc"}
    given = {"DATABASE_URL": database_url, "CELLS": ";".join(f"{name}={url}" for name, url in urls.items())}
    sale = ("--units", "5", "--price", "1", "--currency", "EUR", "--payment", "external")
    assert here("sales", "create", "cold", *sale, DATABASE_URL=urls["a"]).code == 0

    assert "the cell a is in use: cold" in here("cells", "pin", "hot", "a", "--json", **given).refusal
    assert here("cells", "pin", "hot", "b", "--json", **given).json == {"sku_id": "hot", "cell": "b", "pinned": True}
    assert "hot is in the cell b" in here("cells", "pin", "hot", "c", "--json", **given).refusal
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
