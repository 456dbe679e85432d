"""Searches the refusals of one buyer, in archived segments and in those still being written."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.audit.engine import ARCHIVE, LINES, open_engine
from holdfast.audit.refusal import COLUMNS, NOBODY, Refusal
from holdfast.audit.segments import archived, raw

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A segment may be archived between listing the directory and reading the file. Then the search is repeated.
LOOKS = 3
_COUNTS = (
    "SELECT outcome, CAST(sum(CASE WHEN owner_id = ? THEN quantity ELSE 1 END) AS BIGINT) FROM found "
    "GROUP BY outcome ORDER BY outcome"
)


class Question(Struct, frozen=True):
    owner_id: str
    sku_id: str | None = None
    sale_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 500

    def matches(self, refusal: Refusal) -> bool:
        """The same filter as `_conditions`, for refusals that are not in files."""
        is_in_time = (self.since_ms is None or refusal.at_ms >= self.since_ms) and (
            self.until_ms is None or refusal.at_ms < self.until_ms
        )
        is_of_sku = self.sku_id is None or refusal.sku_id == self.sku_id
        of_sale = refusal.sale_id if self.sku_id is None else refusal.sale_id or self.sale_id
        is_of_sale = self.sale_id is None or of_sale == self.sale_id
        return refusal.owner_id == self.owner_id and is_in_time and is_of_sku and is_of_sale


class Refusals(Struct, frozen=True):
    """The latest refusals in order, the total counts by outcome, and the unreadable segments."""

    latest: list[Refusal]
    counts: dict[str, int]
    unreadable: list[str]

    def with_others(self, others: "Refusals", limit: int) -> "Refusals":
        """Adds the refusals of other servers."""
        latest = sorted([*self.latest, *others.latest], key=lambda refusal: refusal.at_ms)[-limit:]
        outcomes = sorted(self.counts.keys() | others.counts.keys())
        counts = {name: self.counts.get(name, 0) + others.counts.get(name, 0) for name in outcomes}
        return Refusals(latest, counts, [*self.unreadable, *others.unreadable])


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
        counts = engine.execute(_COUNTS, [NOBODY]).fetchall()
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
