"""Searches the refusals of one buyer, in archived segments and in those still being written."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.audit.engine import ARCHIVE, LINES, open_engine
from holdfast.audit.refusal import COLUMNS, Refusal
from holdfast.audit.segments import archived, raw

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A segment may be archived between listing the directory and reading the file. Then the search is repeated.
LOOKS = 3


class Question(Struct, frozen=True):
    owner_id: str
    sku_id: str | None = None
    sale_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 500


class Refusals(Struct, frozen=True):
    """The latest refusals in order, the total counts by outcome, and the unreadable segments."""

    latest: list[Refusal]
    counts: dict[str, int]
    unreadable: list[str]


def search(directory: Path, question: Question) -> Refusals:
    for _ in range(LOOKS - 1):
        try:
            return _search(directory, question)
        except FileNotFoundError:
            continue
    return _search(directory, question)


def _search(directory: Path, question: Question) -> Refusals:
    where, given = _conditions(question)
    unreadable: list[str] = []
    with open_engine() as engine:
        engine.execute(f"CREATE TABLE found ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})")
        for source, files in ((ARCHIVE, archived(directory)), (LINES, raw(directory))):
            query = f"SELECT * FROM ({source}) WHERE {where}"  # noqa: S608 - constants only, values are bound
            unreadable += _collect(engine, query, files, given)
        latest = engine.execute(
            "SELECT * FROM found ORDER BY at_ms DESC, rowid DESC LIMIT ?", [question.limit]
        ).fetchall()
        counts = engine.execute("SELECT outcome, count(*) FROM found GROUP BY outcome ORDER BY outcome").fetchall()
    return Refusals([Refusal(*row) for row in reversed(latest)], dict(counts), unreadable)


def _conditions(question: Question) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, Any]] = [("owner_id = ?", question.owner_id)]
    if question.since_ms is not None:
        conditions.append(("at_ms >= ?", question.since_ms))
    if question.until_ms is not None:
        conditions.append(("at_ms < ?", question.until_ms))
    if question.sku_id is not None:
        conditions.append(("sku_id = ?", question.sku_id))
    if question.sale_id is not None:
        # Attempts through the Inventory API name no sale, but they name its SKU.
        is_of_sale = "sale_id = ?" if question.sku_id is None else "coalesce(sale_id, ?) = ?"
        conditions.append((is_of_sale, question.sale_id))
    given = [value for condition, value in conditions for _ in range(condition.count("?"))]
    return " AND ".join(condition for condition, _ in conditions), given


def _collect(engine: "DuckDBPyConnection", query: str, files: Sequence[Path], given: list[Any]) -> list[str]:
    """Read all files together, which is fastest, or one by one if that fails. Returns the unreadable ones."""
    if not files or _insert(engine, query, files, given):
        return []
    return [file.name for file in files if not _insert(engine, query, [file], given)]


def _insert(engine: "DuckDBPyConnection", query: str, files: Sequence[Path], given: list[Any]) -> bool:
    from duckdb import Error  # noqa: PLC0415 - loaded by now

    try:
        engine.execute(f"INSERT INTO found {query}", [[str(file) for file in files], *given])
    except Error:
        if not all(file.exists() for file in files):
            raise FileNotFoundError("a segment was archived meanwhile") from None
        return False
    return True
