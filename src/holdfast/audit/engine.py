"""DuckDB, which reads and writes the segments. Importing it takes 0.1 s and 28 MiB, so it is imported on demand."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit.refusal import COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = ", ".join(f"{name}: '{type_}'" for name, type_ in COLUMNS.items())
_NAMES = ", ".join(COLUMNS)
# A line that is not a refusal, such as a partial last line of a killed process, reads as nulls.
LINES = (
    f"SELECT {_NAMES} FROM read_json(?, format = 'newline_delimited', columns = {{{_COLUMNS}}}, ignore_errors = true) "  # noqa: S608
    "WHERE owner_id IS NOT NULL"
)
ARCHIVE = f"SELECT {_NAMES} FROM read_parquet(?, union_by_name = true)"  # noqa: S608 - our own names only
# Sorted by owner, so that a search reads a small part of the file. Line numbers keep the order within a millisecond.
_WRITE = (
    f"COPY (SELECT {_NAMES} FROM (SELECT *, row_number() OVER () AS line FROM ({LINES})) "  # noqa: S608
    "ORDER BY owner_id, at_ms, line) TO ? (FORMAT parquet, COMPRESSION zstd)"
)


def open_engine() -> "DuckDBPyConnection":
    import duckdb  # noqa: PLC0415 - see above

    # One thread and little memory, because it runs next to a busy server.
    limits: dict[str, Any] = {"threads": 1, "memory_limit": "512MB", "autoinstall_known_extensions": False}
    return duckdb.connect(":memory:", config=limits)


def to_parquet(raw: Path, parquet: Path) -> None:
    with open_engine() as engine:
        engine.execute(_WRITE, [[str(raw)], str(parquet)])
