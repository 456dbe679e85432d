"""The counters of each pool over time, for charts that survive a reload and are the same on every machine.

The model. A row is a count under a name in a time span, initially one second. Every process adds its counts to the row
of the current second, so a row is the sum over all processes. Names that begin with `level.` are not counts but current
values; the highest in a span is kept, and an unchanged value has no row.

Size. The first hour of a pool's history and the most recent hour keep their one-second rows. Rows in between are merged
into minutes, and into ten minutes once they are a day old. Rows older than `KEPT_MS` are deleted. `take_turn` selects
the process that does this for all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    case,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)

from holdfast.ledger.stock.pool_counts import insert_for
from holdfast.ledger.tables.stock import pool_counts, pool_history
from holdfast.runtime.counters import SERVER

LEVEL = "level."
# The length of a span in seconds, and the age at which rows are merged into it.
COARSER = ((60, 3_600_000), (600, 24 * 3_600_000))
FIRST_MS = 3_600_000
KEPT_MS = 90 * 24 * 3_600_000
_c = pool_history.c
# For both reading and merging: counts add up, and the highest level is kept.
_TOTAL = case((_c.name.startswith(LEVEL), func.max(_c.number)), else_=func.sum(_c.number))


class Span(Struct, frozen=True):
    at: int
    seconds: int
    counts: Mapping[str, int]


def add_to_history(connection: Connection, counts: Mapping[tuple[str, str], int], now: int) -> None:
    rows = [_row(key, number, now) for key, number in sorted(counts.items())]
    statement = insert_for(connection)(pool_history)
    _upsert(connection, statement, statement.excluded.number + _c.number, rows)


def add_levels(connection: Connection, levels: Mapping[tuple[str, str], int], now: int) -> None:
    rows = [_row(key, number, now) for key, number in sorted(levels.items())]
    statement = insert_for(connection)(pool_history)
    _upsert(connection, statement, statement.excluded.number, rows)


def _row(key: tuple[str, str], number: int, now: int) -> dict[str, object]:
    return {"sku_id": key[0], "seconds": 1, "at": now - now % 1000, "name": key[1], "number": number}


def _upsert(connection: Connection, statement: Any, number: Any, rows: Sequence[Mapping[str, object]] = ()) -> None:
    key = ["sku_id", "seconds", "at", "name"]
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_={"number": number}), rows or None)


def take_turn(connection: Connection, name: str, now: int, every_ms: int) -> bool:
    """Whether nobody has done it for `every_ms`; if so, nobody else can until this transaction ends."""
    key = {"sku_id": SERVER, "name": name}
    statement = insert_for(connection)(pool_counts)
    connection.execute(statement.on_conflict_do_nothing(), {**key, "number": 0})
    mine = (pool_counts.c.sku_id == SERVER, pool_counts.c.name == name)
    taken = update(pool_counts).where(*mine, pool_counts.c.number <= now - every_ms).values(number=now)
    return connection.execute(taken).rowcount == 1


def coarsen(connection: Connection, now: int) -> None:
    firsts = connection.execute(select(_c.sku_id, func.min(_c.at)).group_by(_c.sku_id)).all()
    for sku_id, first in firsts:
        # The server's counters run continuously, so they have no first hour of a sale.
        since = first if sku_id == SERVER else first + FIRST_MS
        for seconds, age_ms in COARSER:
            _merge(connection, sku_id, seconds, since, now - age_ms)
    connection.execute(delete(pool_history).where(_c.at < now - KEPT_MS))


def _merge(connection: Connection, sku_id: str, seconds: int, since: int, until: int) -> None:
    """Merges complete spans only."""
    span_ms = seconds * 1000
    first, last = -(-since // span_ms) * span_ms, until // span_ms * span_ms
    old = (_c.sku_id == sku_id, _c.seconds < seconds, _c.at >= first, _c.at < last)
    at = _begin(span_ms)
    sums = select(_c.sku_id, literal(seconds), at, _c.name, _TOTAL).where(*old).group_by(_c.sku_id, at, _c.name)
    statement = insert_for(connection)(pool_history)
    columns = ["sku_id", "seconds", "at", "name", "number"]
    # An existing row comes from late counts. There are none after an hour.
    _upsert(connection, statement.from_select(columns, sums), statement.excluded.number + _c.number)
    connection.execute(delete(pool_history).where(*old))


def _begin(span_ms: int) -> ColumnElement[int]:
    """Not a parameter: PostgreSQL would not recognise the grouped expression in the selected one."""
    return _c.at - _c.at % literal_column(str(span_ms), BigInteger)


def first_at(connection: Connection, sku_id: str, since: int) -> int | None:
    return connection.execute(select(func.min(_c.at)).where(_c.sku_id == sku_id, _c.at >= since)).scalar()


def history_of(connection: Connection, sku_id: str, since: int, until: int, seconds: int) -> list[Span]:
    """In spans of this many seconds, or longer ones where rows were merged. Empty spans are left out."""
    span_ms = seconds * 1000
    at, width = _begin(span_ms), func.max(_c.seconds)
    wanted = select(at.label("at"), _c.name, _TOTAL.label("number"), width.label("seconds"))
    # Rejected requests are counted for the server.
    wanted = wanted.where(_c.sku_id.in_((sku_id, SERVER)), _c.at >= since, _c.at < until).group_by(at, _c.name)
    found: dict[int, dict[str, int]] = {}
    widths: dict[int, int] = {}
    for row in connection.execute(wanted.order_by("at")):
        found.setdefault(row.at, {})[row.name] = int(row.number)
        widths[row.at] = max(row.seconds, seconds, widths.get(row.at, 0))
    return [Span(at_, widths[at_], counts) for at_, counts in found.items()]
