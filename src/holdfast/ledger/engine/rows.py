"""Many rows in one statement.

A batch reads and writes hundreds of rows. With one statement for all of them, PostgreSQL needs one round trip. SQLite
releases and reacquires the interpreter lock around every statement, so fewer statements keep the HTTP side responsive
while a batch is written. Rows are passed as one JSON parameter, whose members both engines read with `->>`. Only
SQLite's inserts differ, because it takes plain values twice as fast.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Table,
    bindparam,
    cast,
    column,
    func,
    insert,
    literal_column,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy import Insert as InsertStatement
from sqlalchemy import Text as TextType
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.sqlite_writer import driver_of

_encode = msgspec.json.Encoder().encode


def encode_rows(rows: Iterable[Sequence[object]]) -> str:
    return _encode(list(rows)).decode()


def rows_parameter(dialect_name: str, columns: Sequence[Column[Any]], name: str = "rows") -> Subquery:
    """The parameter of this name as a table with these columns, in the order of the given rows."""
    if dialect_name == "sqlite":
        source = func.json_each(bindparam(name, type_=TextType)).table_valued("value")
        value = source.c.value
    else:
        # JSONB is parsed once; JSON would be parsed again for each member.
        source = func.jsonb_array_elements(cast(bindparam(name, type_=TextType), JSONB)).table_valued(
            column("value", JSONB), name="source"
        )
        value = literal_column("source.value")
    members = [
        cast(value.op("->>")(literal_column(str(index))), c.type).label(c.name) for index, c in enumerate(columns)
    ]
    return select(*members).select_from(source).subquery("given")


def rows_matching(
    dialect_name: str, table: Table, columns: Sequence[Column[Any]], *conditions: ColumnElement[bool]
) -> Select[Any]:
    """The rows of a table whose columns equal one of the rows given as `:rows`: one index look-up for each.

    PostgreSQL has to be forced: its statistics lag behind during a sale, and they may suggest that reading and hashing
    the whole table is cheaper. A lateral subquery that it may not pull up (OFFSET 0) prevents that.
    """
    given = rows_parameter(dialect_name, columns)
    if dialect_name == "sqlite":
        wanted = tuple_(*columns) if len(columns) > 1 else columns[0]
        return select(table).where(*conditions, wanted.in_(select(*given.c)))
    same = [c == given.c[c.name] for c in columns]
    each = select(table).where(*conditions, *same).offset(literal_column("0")).lateral("each")
    return select(*each.c).select_from(given.join(each, true()))


def newest_rows(dialect_name: str, table: Table, wanted: Column[Any], key: Column[Any], limit: int) -> Select[Any]:
    """For each value given as `:rows`, the rows whose column `wanted` has it: the last by key, up to a limit.

    With an index of the two columns, only that many rows are read.
    """
    given = rows_parameter(dialect_name, [wanted])
    if dialect_name == "sqlite":
        each = table.alias("each")
        of_one = select(each.c[key.name]).where(each.c[wanted.name] == given.c[wanted.name]).correlate(given)
        newest = of_one.order_by(each.c[key.name].desc()).limit(limit)
        return select(table).select_from(given.join(table, key.in_(newest)))
    last = select(table).where(wanted == given.c[wanted.name]).order_by(key.desc()).limit(limit).lateral("each")
    return select(*last.c).select_from(given.join(last, true()))


Insert = Callable[[Connection, Sequence[Sequence[object]]], None]


def insert_rows(dialect_name: str, table: Table, columns: Sequence[Column[Any]]) -> Insert:
    """Write many rows at once."""
    if dialect_name == "sqlite":
        return _SqliteInsert(table, columns)
    statement = prepared(dialect_name, insertion(dialect_name, table, columns))

    def execute(connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        statement.run(connection, {"rows": encode_rows(rows)})

    return execute


def insertion(
    dialect_name: str,
    table: Table,
    columns: Sequence[Column[Any]],
    name: str = "rows",
    *conditions: ColumnElement[bool],
) -> InsertStatement:
    given = rows_parameter(dialect_name, columns, name)
    rows: Select[Any] = select(*given.c).where(*conditions)
    return insert(table).from_select([c.name for c in columns], rows)


class _SqliteInsert:
    """On SQLite, `INSERT … VALUES (…), (…)` costs half as much as reading the same rows from JSON.

    Statements of a few sizes are built once and stay prepared; a batch is split into as few of them as possible.
    """

    def __init__(self, table: Table, columns: Sequence[Column[Any]]) -> None:
        self._statements = {size: _values_statement(table, columns, size) for size in _SIZES}

    def __call__(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        done = 0
        while left := len(rows) - done:
            size = min(1 << left.bit_length() - 1, _SIZES[-1])
            part = rows[done : done + size]
            driver_of(connection).execute(self._statements[size], list(chain.from_iterable(part)))
            done += size


# Powers of two; the largest is the default maximum batch size.
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def _values_statement(table: Table, columns: Sequence[Column[Any]], size: int) -> str:
    """As text: SQLAlchemy takes a third of a second to compile them all, a delay for every command."""
    names = ", ".join(f'"{c.name}"' for c in columns)
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * size)}"  # noqa: S608 - names of our own tables


def update_rows(
    dialect_name: str,
    table: Table,
    key: Column[Any],
    changed: Sequence[Column[Any]],
    name: str = "rows",
    *conditions: ColumnElement[bool],
) -> Any:
    """Each row is found by index. PostgreSQL has to be forced, as in `rows_matching`, but a join with the table that an
    UPDATE changes cannot be. A conflict is always found by index, so existing rows are "inserted", which updates them.
    """
    given = rows_parameter(dialect_name, [key, *changed], name)
    if dialect_name == "sqlite":
        return update(table).where(key == given.c[key.name]).values({c.name: given.c[c.name] for c in changed})
    each = select(table).where(key == given.c[key.name]).offset(literal_column("0")).lateral("each")
    values = {**each.c, **given.c}
    rows = select(*values.values()).select_from(given.join(each, true())).where(*conditions)
    statement = postgresql_insert(table).from_select(list(values), rows)
    return statement.on_conflict_do_update(
        index_elements=[key], set_={c.name: statement.excluded[c.name] for c in changed}
    )


def locked_rows(dialect_name: str, table: Table, columns: Sequence[Column[Any]]) -> Select[Any]:
    """Like `rows_matching`, but each row is locked until the transaction ends, in the given order."""
    if dialect_name == "sqlite":
        return rows_matching(dialect_name, table, columns)
    given = rows_parameter(dialect_name, columns)
    same = [c == given.c[c.name] for c in columns]
    each = select(table).where(*same).offset(literal_column("0")).with_for_update().lateral("each")
    return select(*each.c).select_from(given.join(each, true()))


def upsert_rows(
    dialect_name: str, table: Table, columns: Sequence[Column[Any]], key: Column[Any], changed: Sequence[Column[Any]]
) -> Any:
    """Write the rows given as `:rows`; in existing rows, change only the columns that may change."""
    given = rows_parameter(dialect_name, columns)
    # Without a WHERE, SQLite parses the ON of ON CONFLICT as that of a join.
    rows: Select[Any] = select(*given.c).where(true())
    insert_into = sqlite_insert(table) if dialect_name == "sqlite" else postgresql_insert(table)
    statement = insert_into.from_select([c.name for c in columns], rows)
    return statement.on_conflict_do_update(
        index_elements=[key], set_={c.name: statement.excluded[c.name] for c in changed}
    )
