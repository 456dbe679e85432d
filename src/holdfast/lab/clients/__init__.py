"""Generates the Python and the TypeScript client from the endpoint table, as part of `make docs`."""

from pathlib import Path

from holdfast.lab.clients.model import read_table
from holdfast.lab.clients.python import python_files

PYTHON = Path("src/holdfast/client")
# Generated files have this on their first line, so that those nothing generates any more are found.
MARK = "Generated from the endpoint table by `make docs`"


def client_files() -> dict[Path, str]:
    """Every generated file as it should be."""
    api = read_table()
    return {PYTHON / name: text for name, text in python_files(api).items()}


def stale_client_files(written: dict[Path, str]) -> list[Path]:
    """Generated once, and no longer."""
    found = [path for path in PYTHON.rglob("*.py") if path not in written]
    return [path for path in found if MARK in path.read_text().partition("\n")[0]]
