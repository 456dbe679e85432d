"""Replays the events into the rows that must exist, and compares every column of every table with them.

The model. Each event has the facts that it gave to rows (`ledger/engine/facts.py`). Folded in order, they yield the
rows of the whole ledger, without reading any other table. If a row differs, is missing, or was created by no event,
the change was not made by Holdfast. Columns that may have any value are listed in `free_columns.py`. Payments,
settlements and refunds are compared once they are decided: until then they change without events, and other checks know
what is in progress.

A ledger that was created by an earlier release has events without facts, including the first one. Rows that only those
events could explain are counted as a note. So is a row that differs, if there is an event without facts after the row's
last event: during an upgrade, processes of both releases write.

Memory: rows are compared in parts. Each part is a share of all primary keys, sized to have about as many rows as there
are events in `EVENTS_MAX`. The events are read once for each part.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any
from zlib import crc32

import msgspec
from sqlalchemy import Column, Connection, DefaultClause, Integer, Row, Table, func, select, tuple_

from holdfast.ledger.stock.queries import KEYS_KEPT_MS
from holdfast.ledger.tables.room import rooms
from holdfast.ledger.tables.stock import events, idempotency
from holdfast.verify.check import Computed, Level
from holdfast.verify.free_columns import FREE
from holdfast.verify.replayed_rows import LAST_EVENT, REPLAYED, SUMMED, Key, ReplayedRows, is_in_progress

EVENTS_MAX = 250_000
PAGE = 5_000

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class _Part:
    """The rows of one share of the primary keys."""

    def __init__(self, connection: Connection, number: int, of: int) -> None:
        self._connection = connection
        self._number, self._of = number, of
        self.rows = ReplayedRows(self._is_mine)
        self.unreadable: list[dict[str, Any]] = []
        # The last event without facts, in a ledger that an earlier release created.
        self._old_until: int | None = None
        self._latest = 0

    def _is_mine(self, key: Key) -> bool:
        return self._of == 1 or crc32("/".join(map(str, key)).encode()) % self._of == self._number

    def replay(self) -> None:
        for number, event in enumerate(_pages(self._connection, events)):
            self._latest = max(self._latest, event.at)
            if event.facts is None and (number == 0 or self._old_until is not None):
                self._old_until = event.seq
            try:
                self.rows.apply(event, {} if event.facts is None else _decode(event.facts))
            except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError):
                self.unreadable.append({"table": events.name, "key": [event.seq], "wrong": "facts"})

    def compare(self) -> Iterator[tuple[Level, dict[str, Any]]]:
        for one in self.unreadable if self._number == 0 else ():
            yield Level.FAILURE, one
        for table in REPLAYED:
            expected, key_of = self.rows.of(table), _key_of(table)
            for row in _pages(self._connection, table):
                key = key_of(row)
                if self._is_mine(key):
                    yield from self._differences(table, key, row, expected.pop(key, None))
            for key, values in expected.items():
                if not self._may_be_gone(table, values):
                    yield Level.FAILURE, {"table": table.name, "key": list(key), "wrong": "missing"}

    def _differences(
        self, table: Table, key: Key, row: Row[Any], expected: dict[str, Any] | None
    ) -> Iterator[tuple[Level, dict[str, Any]]]:
        about = {"table": table.name, "key": list(key)}
        if is_in_progress(table, row, expected):
            return
        for index, name, default in _compared(table):
            if expected is not None and name not in expected and row[index] == default:
                continue  # The column is newer than the events of this row.
            if expected is None or name not in expected:
                level = Level.FAILURE if self._old_until is None else Level.NOTE
                yield level, about | {"wrong": name, "recorded": "nothing"}
                return
            if expected[name] != row[index]:
                is_old = self._old_until is not None and expected[LAST_EVENT] < self._old_until
                level = Level.NOTE if is_old else Level.FAILURE
                yield level, about | {"wrong": name, "recorded": expected[name], "found": row[index]}
                return

    def _may_be_gone(self, table: Table, values: dict[str, Any]) -> bool:
        """Idempotency keys are kept for a day."""
        return table is idempotency and values["created_at"] < self._latest - KEYS_KEPT_MS + _PRUNED_EARLY_MS


# Clocks of processes differ by less than this.
_PRUNED_EARLY_MS = 3_600_000


@cache
def _compared(table: Table) -> list[tuple[int, str, object]]:
    """The columns of a row that events set, each with its index and its default."""
    columns = [(index, c) for index, c in enumerate(table.c) if not c.primary_key and c not in SUMMED]
    return [(index, c.name, _default_of(c)) for index, c in columns if not FREE.is_free(table, c.name)]


def _default_of(column: Column[Any]) -> object:
    if not isinstance(column.server_default, DefaultClause):
        return None
    default = str(column.server_default.arg)
    return int(default) if isinstance(column.type, Integer) else default


def _key_of(table: Table) -> Callable[[Sequence[Any]], Key]:
    indexes = [index for index, c in enumerate(table.c) if c.primary_key]
    get = itemgetter(*indexes)
    return get if len(indexes) > 1 else lambda row: (get(row),)


def count_parts(connection: Connection) -> int:
    # One event may stand for hundreds of places, including some that were deleted since.
    has_events = (rooms.c.pruned < rooms.c.joined) | rooms.c.unpruned_before.is_not(None)
    joined = select(func.coalesce(func.sum(rooms.c.joined), 0)).where(has_events)
    counts = select(func.count()).select_from(events), joined
    return 1 + sum(int(connection.execute(count).scalar_one()) for count in counts) // EVENTS_MAX


def _differences(connection: Connection) -> Iterator[tuple[Level, dict[str, Any]]]:
    parts = count_parts(connection)
    for number in range(parts):
        part = _Part(connection, number, parts)
        part.replay()
        yield from part.compare()


def _pages(connection: Connection, table: Table) -> Iterator[Row[Any]]:
    """All rows by primary key. Nothing stays open between pages."""
    columns = list(table.primary_key)
    query, after = select(table).order_by(*columns).limit(PAGE), None
    while True:
        page = connection.execute(query if after is None else query.where(tuple_(*columns) > after)).all()
        yield from page
        if len(page) < PAGE:
            return
        after = tuple_(*_key_of(table)(page[-1]))


def _failures(connection: Connection) -> Iterator[dict[str, Any]]:
    return (found for level, found in _differences(connection) if level is Level.FAILURE)


def _notes(connection: Connection) -> Iterator[dict[str, Any]]:
    """None in a ledger whose first event has facts, which can be checked without a replay."""
    first = connection.execute(select(events.c.facts).order_by(events.c.seq).limit(1)).scalar()
    if first is None:
        yield from (found for level, found in _differences(connection) if level is Level.NOTE)


CHECKS = (
    Computed(
        "rows_as_recorded",
        "Every row has the values that the events gave to it, and none is missing or was made by no event.",
        events,
        _failures,
    ),
    Computed(
        "rows_not_recorded",
        "Rows that cannot be proven, because an earlier release wrote their events.",
        events,
        _notes,
        Level.NOTE,
    ),
)
