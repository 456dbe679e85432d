"""Stores payments: in a SQLite file with one row per payment, or in memory.

Every change is committed before the response, without an fsync: it survives the end of the process, but not a power
failure.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.errors import SettingsError
from holdfast.lab.sandbox.entry import Entry

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Store:
    def __init__(self, path: Path | None) -> None:
        if path is not None and not path.exists():
            # SQLite gives its auxiliary files the same mode.
            path.touch(mode=0o600)
        # Another process that has locked the file keeps the lock, so waiting is pointless.
        self._connection = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=0.1)
        try:
            self._prepare()
        except sqlite3.DatabaseError as exc:
            raise SettingsError(f"{path} cannot be used for the sandbox's payments: {exc}") from exc

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        # A second service on the same file would not see the first one's writes.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
        self._connection.execute("BEGIN EXCLUSIVE")
        self._connection.execute("COMMIT")

    def load(self) -> Iterator[Entry]:
        for (text,) in self._connection.execute("SELECT entry FROM entries ORDER BY number"):
            yield _decode(text)

    def save(self, entry: Entry) -> None:
        self._connection.execute("REPLACE INTO entries VALUES (?, ?)", (entry.number, _encode(entry).decode()))

    def close(self) -> None:
        self._connection.close()
