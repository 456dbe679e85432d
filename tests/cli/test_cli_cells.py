"""`holdfast cells`: what is where, a cell for one SKU alone, and a move to another."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli_running import TIMEOUT_S, Cli, Here
from sqlalchemy import create_engine

from databases import new_sqlite_database
from holdfast.bootstrap.cells import moving
from holdfast.ledger.cells.placement import drop_key, place

pytest_plugins = ("cli_fixtures",)

STEPS = ["announced", "drained", "taken", "given", "copied", "verified", "removed"]
# The command line, killed at a step.
KILLED = """
import os, signal, sys
from holdfast.bootstrap.cells import moving
from holdfast.cli import main

begin, stop = moving.CellMover.__init__, sys.argv.pop(1)

def begin_and_die(self, control, open_site, on_step):
    begin(self, control, open_site, lambda step: step == stop and os.kill(os.getpid(), signal.SIGKILL))

moving.CellMover.__init__, moving.SERVERS_KNOW_S = begin_and_die, 0
main()
"""


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
    with create_engine(given["DATABASE_URL"]).begin() as connection:
        place(connection, drop_key("spring"), [], "a")
    on_the_map = here("cells", "list", "--json", **given).json
    assert [cell["drop_ids"] for cell in on_the_map["data"]] == [["spring"], []]
    assert (
        "spring is a drop, which stays in its cell"
        in here("cells", "move", "spring", "--to", "b", "--json", **given).refusal
    )
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


@pytest.mark.slow
def test_a_command_that_is_killed_at_any_step_is_repeated_and_nothing_is_lost(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back and forth, killed at another step each time."""
    monkeypatch.setattr(moving, "SERVERS_KNOW_S", 0)
    urls = {name: new_sqlite_database(tmp_path / f"{name}.db") for name in ("a", "b", "control")}
    given = {"DATABASE_URL": urls.pop("control"), "CELLS": ";".join(f"{name}={url}" for name, url in urls.items())}
    assert here("cells", "pin", "hot", "a", **given).code == 0
    terms = ("--units", "5", "--price", "1", "--currency", "EUR", "--payment", "external")
    later = ("--starts-at", "2099-01-01T00:00:00Z")
    assert here("sales", "create", "hot", *terms, *later, DATABASE_URL=urls["a"]).code == 0
    environment = Cli(tmp_path).environment(given)
    for number, step in enumerate(STEPS):
        to, old = ("b", "a") if number % 2 == 0 else ("a", "b")
        command = [sys.executable, "-c", KILLED, step, "cells", "move", "hot", "--to", to]
        killed = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        assert killed.returncode == -9, killed.stderr.decode()
        moved = here("cells", "move", "hot", "--to", to, "--json", **given)
        assert moved.json == {"sku_id": "hot", "cell": to, "units": 5, "sale_ids": ["hot"]}
        units = {}
        for cell, url in urls.items():
            pools = here("pools", "list", "--json", DATABASE_URL=url).json["data"]
            units[cell] = sum(pool["total_units"] for pool in pools)
        assert units == {to: 5, old: 0}
    for url in urls.values():
        assert here("verify", "--json", DATABASE_URL=url).json["ok"]
