"""Statements of hot paths on PostgreSQL, executed on asyncpg.

The model. SQLAlchemy compiles a statement once. From then on its text, its ordered parameters and its rows are passed
directly to and from the driver. SQLAlchemy's overhead per statement (a cache key, a context, a cursor, a result)
exceeds the cost in the driver. Everything else remains SQLAlchemy's: the pool, transactions, each session's cache of
prepared statements and their names, which some poolers require to be off (`session.py`), and the meaning of failures.
So a failure is handed to SQLAlchemy as if the statement had been its own.

The invariants. A statement begins its transaction if that has not begun. All values are the driver's, without
conversion; a statement with a type that needs one is refused when it is built.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from sqlalchemy import Boolean, Connection
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.util import await_only

# Set in the `info` of a connection whose transaction has changed rows.
CHANGED = "holdfast_changed"

Make = Callable[[Iterable[Any]], Any]

_dialect: Any = dialect()  # type: ignore[no-untyped-call]


class OnPostgres:
    def __init__(self, statement: Any, sets: Sequence[str], row_type: Callable[[list[str]], Make]) -> None:
        self.statement = statement
        compiled = statement.compile(dialect=_dialect, column_keys=sets or None)
        self._text = str(compiled)
        self._names: list[str] = compiled.positiontup or []
        # Constants that SQLAlchemy turned into parameters.
        self._constants = {name: bound.value for name, bound in compiled.binds.items() if not bound.required}
        columns = list(getattr(statement, "selected_columns", ()))
        _ensure_plain([*columns, *compiled.binds.values()])
        self._make = row_type([c.name for c in columns])

    def all(self, connection: Connection, given: Mapping[str, object]) -> list[Any]:
        return list(map(self._make, self._execute(connection, given)[0]))

    def run(self, connection: Connection, given: Mapping[str, object]) -> bool:
        _, status = self._execute(connection, given)
        has_changed = not status.endswith(" 0")
        if has_changed:
            connection.info[CHANGED] = True
        return has_changed

    def _execute(self, connection: Connection, given: Mapping[str, object]) -> tuple[list[Any], str]:
        values = {**self._constants, **given} if self._constants else given
        session: Any = connection.connection.dbapi_connection
        if not connection.in_transaction():
            connection.begin()
        known_since = connection.dialect._invalidate_schema_cache_asof  # type: ignore[attr-defined] # noqa: SLF001
        try:
            return await_only(_fetch(session, self._text, known_since, [values[name] for name in self._names]))
        except BaseException as exc:
            self._fail(connection, session, exc)

    def _fail(self, connection: Connection, session: DBAPIConnection, exc: BaseException) -> NoReturn:
        """Handle it like the failure of one of SQLAlchemy's own statements."""
        failure = exc
        if isinstance(exc, Exception):
            try:
                session._handle_exception(exc)  # noqa: SLF001 - it translates the errors of the driver
            except Exception as translated:
                failure = translated
        driver = connection.dialect.loaded_dbapi
        if isinstance(failure, driver.InvalidCachedStatementError | driver.InternalServerError):
            connection.dialect._invalidate_schema_cache()  # type: ignore[attr-defined] # noqa: SLF001
        text = self._text if isinstance(failure, driver.Error) else None
        connection._handle_dbapi_exception(failure, text, None, None, None)  # noqa: SLF001
        raise AssertionError("SQLAlchemy raises it") from exc


async def _fetch(session: Any, text: str, known_since: float, values: Sequence[object]) -> tuple[list[Any], str]:
    if session._transaction is None:  # noqa: SLF001
        # Does nothing if the session is in autocommit.
        await session._start_transaction()  # noqa: SLF001
    prepared, _ = await session._prepare(text, known_since)  # noqa: SLF001
    rows = await prepared.fetch(*values)
    return rows, prepared.get_statusmsg()


def _ensure_plain(typed: Iterable[Any]) -> None:
    for one in typed:
        type_ = one.type.dialect_impl(_dialect)
        if isinstance(type_, Boolean):
            continue  # SQLAlchemy only looks whether it is one, and so does asyncpg.
        if type_.bind_processor(_dialect) is not None or type_.result_processor(_dialect, None) is not None:
            raise TypeError(f"{one} has a type that asyncpg does not take as it is: {one.type!r}")
