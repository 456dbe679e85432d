"""Parquet files with the columns of a table. pyarrow is loaded only where one is written or read."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Integer

from holdfast.errors import SettingsError

# Rows in memory at a time.
PAGE = 20_000


def load_pyarrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet half."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to load
        from pyarrow import parquet  # noqa: PLC0415 - see above
    except ImportError as exc:
        raise SettingsError("archives need pyarrow: pip install 'holdfast[archive]'") from exc
    return pa, parquet


def schema_of(columns: Sequence[Column[Any]], *texts: str) -> Any:
    """The columns of a table, plus further text columns."""
    arrow, _ = load_pyarrow()
    fields = [(column.name, _type_of(arrow, column)) for column in columns]
    return arrow.schema([*fields, *[(name, arrow.string()) for name in texts]])


def _type_of(arrow: Any, column: Column[Any]) -> Any:
    if isinstance(column.type, Boolean):
        return arrow.bool_()
    return arrow.int64() if isinstance(column.type, BigInteger | Integer) else arrow.string()


class ParquetFile:
    """Written page by page, and on disk when `close` returns."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path, self.rows = path, 0
        self._arrow, parquet = load_pyarrow()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._schema, self._writer = schema, parquet.ParquetWriter(path, schema, compression="zstd")

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._writer.write_table(self._arrow.Table.from_pylist(list(rows), schema=self._schema))
            self.rows += len(rows)

    def close(self) -> None:
        self._writer.close()
        sync(self.path)


def read_pages(path: Path) -> Iterator[list[dict[str, Any]]]:
    _, parquet = load_pyarrow()
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=PAGE):
            yield batch.to_pylist()


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Sync a file, or a directory's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
