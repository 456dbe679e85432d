"""Statements of hot paths, compiled once.

SQLAlchemy takes several times as long as the driver to execute a statement that finds one row, so these statements go
directly to the driver: on PostgreSQL as described in `prepared_postgres.py`, on SQLite with the driver's values, except
for booleans.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Boolean, Connection
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.sql.expression import UpdateBase

from holdfast.ledger.engine.sqlite_writer import driver_of

Given = Mapping[str, object]


class Prepared(Protocol):
    statement: Any

    def all(self, connection: Connection, given: Given) -> list[Any]:
        """The matching rows, with columns as attributes."""

    def run(self, connection: Connection, given: Given) -> bool:
        """For a statement that returns no rows: returns whether it changed any."""


def prepared(dialect_name: str, statement: Any, sets: Sequence[str] = ()) -> Prepared:
    """`sets`: the columns that an update sets, if it does not list them itself."""
    if dialect_name == "sqlite":
        return _OnSqlite(statement, sets)
    from holdfast.ledger.engine.prepared_postgres import OnPostgres  # noqa: PLC0415 - loaded only where it is used

    return OnPostgres(statement, sets, row_type)


class _OnSqlite:
    def __init__(self, statement: Any, sets: Sequence[str]) -> None:
        self.statement = statement
        compiled = statement.compile(dialect=dialect(paramstyle="named"), column_keys=sets or None)
        self._text = str(compiled)
        # Constants that SQLAlchemy turned into parameters.
        self._constants = {name: bound.value for name, bound in compiled.binds.items() if not bound.required}
        columns = [] if isinstance(statement, UpdateBase) else list(statement.selected_columns)
        self._make = row_type([c.name for c in columns])
        self._booleans = [at for at, c in enumerate(columns) if isinstance(c.type, Boolean)]

    def all(self, connection: Connection, given: Given) -> list[Any]:
        found = _begun(connection).execute(self._text, {**self._constants, **given}).fetchall()
        if found and self._booleans:
            found = [self._with_booleans(row) for row in found]
        return list(map(self._make, found))

    def run(self, connection: Connection, given: Given) -> bool:
        return _begun(connection).execute(self._text, {**self._constants, **given}).rowcount > 0

    def _with_booleans(self, row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for at in self._booleans:
            values[at] = None if values[at] is None else bool(values[at])
        return values


def row_type(names: list[str]) -> Callable[[Iterable[Any]], Any]:
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc] # noqa: PYI024 - known at run time only
    make: Callable[[Iterable[Any]], Any] = row._make
    return make


def _begun(connection: Connection) -> sqlite3.Connection:
    """Makes all reads share one snapshot."""
    driver = driver_of(connection)
    if not driver.in_transaction and not connection.in_transaction():
        connection.begin()
    return driver
