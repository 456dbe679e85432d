"""Generates the Python and the TypeScript client from the endpoint table, as part of `make docs`.

Imported by documents.
"""

from pathlib import Path

from holdfast.lab.clients.model import read_table
from holdfast.lab.clients.python import python_files
from holdfast.lab.clients.typescript import typescript_files

PYTHON, TYPESCRIPT = Path("src/holdfast/client"), Path("clients/typescript/src")
# The first line of every generated file, so that files which are no longer generated can be found.
MARK = "Generated from the endpoint table by `make docs`"


def client_files() -> dict[Path, str]:
    """The expected content of every generated file."""
    api = read_table()
    typescript = {TYPESCRIPT / name: text for name, text in typescript_files(api).items()}
    return {PYTHON / name: text for name, text in python_files(api).items()} | typescript


def stale_client_files(written: dict[Path, str]) -> list[Path]:
    """Files that were generated once but no longer are."""
    found = [path for path in [*PYTHON.rglob("*.py"), *TYPESCRIPT.rglob("*.ts")] if path not in written]
    return [path for path in found if MARK in path.read_text().partition("\n")[0]]
