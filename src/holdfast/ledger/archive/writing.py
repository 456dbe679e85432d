"""Copies ended months from the ledger to Parquet files, a page at a time.

The model. Events are copied in the form in which the chain hashes them (`content`), so that `holdfast verify` finds
them in the history after the ledger has deleted them. Only events that a link covers are copied, because no running
transaction can still add an event before them. A reservation is copied with the event that ended it, and an order with
every event that changed it; if there are several copies of an order, the one from the latest run counts. A month is
copied one day after it ends. Later runs add events that reach the ledger after that.

When it fails. Files count only once the manifest of their run is written, so an interrupted run is simply repeated. A
ledger without the history that was copied (another ledger, or one restored from an older backup) is refused: its events
would be mistaken for those in the archive.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, func, select

from holdfast.errors import SettingsError
from holdfast.ledger.archive.parquet import PAGE, ParquetFile, digest_of, schema_of, sync
from holdfast.ledger.archive.runs import ArchivedFile, ArchiveRun, read_runs, write_run
from holdfast.ledger.chain.leaves import read_contents
from holdfast.ledger.chain.links import Head, read_head, root_at
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, reservations

CONTENT = "content"
ENDS = ("reservation.confirmed", "reservation.failed", "reservation.cancelled", "reservation.expired")
# Clocks differ, and in Redis mode events reach the ledger later.
GRACE_MS = 24 * 3_600_000
# IDs in one statement.
IDS = 5_000

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def month_of(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m}"


def month_began(at: int) -> int:
    """When the month that contains this moment began."""
    first = datetime.fromtimestamp(at / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return round(first.timestamp() * 1000)


async def archive_months(database: Database, directory: Path) -> ArchiveRun | None:
    """Add everything that ended since the last run. Returns None if there is nothing to add."""
    runs = read_runs(directory)
    last = runs[-1] if runs else ArchiveRun(0, 0, 0, 0, 0, [])
    now, head, first = await database.read(lambda c: (database.now_ms(c), read_head(c), _first_seq(c)))
    if not await database.read(lambda c: _has_history(c, head, last)):
        raise SettingsError(
            f"this ledger does not have the history that is archived in {directory}: it is another one, or was "
            "restored from an older backup; begin a new archive in another directory"
        )
    return await _Run(database, directory, last, head, month_began(now - GRACE_MS)).make(first, now)


def _first_seq(connection: Connection) -> int:
    return connection.execute(select(func.min(events.c.seq))).scalar() or 1


def _has_history(connection: Connection, head: Head, last: ArchiveRun) -> bool:
    if head.seq < last.upto_seq or head.links < last.head.links:
        return False
    return not last.head.links or root_at(connection, last.head.links) == last.head.root


class _Run:
    def __init__(self, database: Database, directory: Path, last: ArchiveRun, head: Head, until: int) -> None:
        self._database, self._directory = database, directory
        self._last, self._head, self._upto, self._until = last, head, head.seq, until
        self._files: dict[tuple[str, str], ParquetFile] = {}
        self._schemas = {
            events.name: schema_of(list(events.c), CONTENT),
            reservations.name: schema_of(list(reservations.c)),
            orders.name: schema_of(list(orders.c)),
        }
        # The reservations whose orders changed.
        self._ordered: set[str] = set()
        self._resume_after: int | None = None

    async def make(self, first: int, now: int) -> ArchiveRun | None:
        at = max(first - 1, self._last.resume_after)
        while at < self._upto:
            await self._copy_events(at, min(at + PAGE, self._upto))
            at = min(at + PAGE, self._upto)
        await self._copy(orders, orders.c.reservation_id, sorted(self._ordered))
        if not self._files:
            return None
        resume_after = self._upto if self._resume_after is None else self._resume_after
        number, files = self._last.number + 1, self._close()
        run = ArchiveRun(number, self._upto, self._until, resume_after, now, files, self._head)
        write_run(self._directory, run)
        return run

    async def _copy_events(self, after: int, upto: int) -> None:
        window = (events.c.seq > after, events.c.seq <= upto)
        contents = await self._database.read(lambda c: read_contents(c, *window))
        rows = [self._columns(content) for _, content in contents]
        left = [row["seq"] for row in rows if row["at"] >= self._until]
        if left and self._resume_after is None:
            self._resume_after = min(left) - 1
        new = [row for row in rows if row["at"] < self._until and not self._last.has(row["seq"], row["at"])]
        self._write(events, new, "at")
        self._ordered |= {row["reservation_id"] for row in new if row["type"].startswith("order.")}
        ended = [row["reservation_id"] for row in new if row["type"] in ENDS]
        await self._copy(reservations, reservations.c.reservation_id, ended)

    def _columns(self, content: str) -> dict[str, Any]:
        return _decode(content) | {CONTENT: content}

    async def _copy(self, table: Table, column: ColumnElement[str], ids: Sequence[str]) -> None:
        for part in (ids[at : at + IDS] for at in range(0, len(ids), IDS)):
            query = select(table).where(column.in_(part))
            found = await self._database.read(lambda c, query=query: c.execute(query).mappings().all())  # type: ignore[misc]
            self._write(table, [dict(row) for row in found], "created_at")

    def _write(self, table: Table, rows: Iterable[dict[str, Any]], at: str) -> None:
        by_month: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_month.setdefault(month_of(row[at]), []).append(row)
        for month, some in by_month.items():
            self._file(str(table.name), month).write(some)

    def _file(self, table: str, month: str) -> ParquetFile:
        if (table, month) not in self._files:
            path = self._directory / table / f"month={month}" / f"run-{self._last.number + 1:06}.parquet"
            self._files[table, month] = ParquetFile(path, self._schemas[table])
        return self._files[table, month]

    def _close(self) -> list[ArchivedFile]:
        found = []
        for (table, month), file in sorted(self._files.items()):
            file.close()
            sync(file.path.parent)
            sync(file.path.parent.parent)
            name = file.path.relative_to(self._directory).as_posix()
            found.append(ArchivedFile(name, table, month, file.rows, digest_of(file.path)))
        return found
