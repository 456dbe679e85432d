"""Clicks as Parquet files in a directory or on S3-compatible storage: `sale_id=…/hour=…/…parquet`."""

import itertools
import secrets
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import asdict

from holdfast.ledger.archive.parquet import load_pyarrow
from holdfast.streams.clicks.click import Click


def schema() -> Any:
    arrow, _ = load_pyarrow()
    texts = [(name, arrow.string()) for name in ("kind", "visitor", "step", "reason")]
    return arrow.schema([("at", arrow.timestamp("ms", "UTC")), *texts, ("status", arrow.int16())])


def sale_directory(sale_id: str) -> str:
    return f"sale_id={quote(sale_id, safe='')}"


class ParquetSink:
    def __init__(self, url: str) -> None:
        """A directory, or `s3://bucket/prefix`, with pyarrow's options: `?endpoint_override=…&scheme=http`."""
        self._arrow, self._parquet = load_pyarrow()
        from pyarrow import fs  # noqa: PLC0415 - an extra

        self._is_local = "://" not in url
        self._schema, self._names = schema(), itertools.count(1)
        self._process = secrets.token_hex(4)
        if self._is_local:
            self._files, self._root = fs.LocalFileSystem(), str(Path(url).absolute())
        else:
            self._files, self._root = fs.FileSystem.from_uri(url)

    def write(self, clicks: Sequence[Click]) -> None:
        parts: dict[str, list[Click]] = defaultdict(list)
        for click in clicks:
            hour = datetime.fromtimestamp(click.at / 1000, UTC)
            parts[f"{sale_directory(click.sale_id)}/hour={hour:%Y-%m-%dT%H}"].append(click)
        for place, some in parts.items():
            self._write_file(f"{self._root}/{place}", some)

    def _write_file(self, directory: str, clicks: Sequence[Click]) -> None:
        path = f"{directory}/{self._process}-{next(self._names):06}.parquet"
        rows = [asdict(click) for click in clicks]
        table = self._arrow.Table.from_pylist(rows, schema=self._schema)
        if not self._is_local:
            # An object appears completely or not at all.
            self._parquet.write_table(table, path, filesystem=self._files, compression="zstd")
            return
        self._files.create_dir(directory, recursive=True)
        self._parquet.write_table(table, f"{path}.part", filesystem=self._files, compression="zstd")
        self._files.move(f"{path}.part", path)

    def close(self) -> None:
        pass
