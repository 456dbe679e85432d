"""A connection that executes the product's statements with less overhead than SQLAlchemy's own.

A run executes a few hundred statements that are built once and never change, and SQLAlchemy's work around each takes
several times as long as SQLite's. From a statement's second execution on, its SQL text, parameter order and conversions
are cached as SQLAlchemy compiled them. SQLAlchemy executes everything else: statements with lists, several rows of
parameters, and defaults computed in Python. A test compares the two paths.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from sqlalchemy import Connection, Engine
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.sql.compiler import SQLCompiler

Convert = Callable[[Any], Any]


class _Parameter(Struct, frozen=True):
    key: str
    value: Any
    convert: Convert | None


class _Plan(Struct, frozen=True):
    text: str
    parameters: tuple[_Parameter, ...]
    metadata: SimpleResultMetaData | None

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Parameter values in the order of the SQL text."""
        found = [(given.get(one.key, one.value), one.convert) for one in self.parameters]
        return [value if convert is None else convert(value) for value, convert in found]


class Rows(IteratorResult[Any]):
    """The rows of a statement; `rowcount` applies to statements without rows."""

    rowcount = -1


# Keyed by the names of the given parameters. After its first execution a statement has an empty entry.
_Plans = WeakKeyDictionary[Any, dict[tuple[str, ...], _Plan | None]]
_NOTHING = SimpleResultMetaData(())


class QuickConnection(Connection):
    def __init__(self, engine: Engine, raw: sqlite3.Connection) -> None:
        super().__init__(engine)
        self._raw = raw
        self._plans: _Plans = WeakKeyDictionary()

    def execute(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        if execution_options is not None or isinstance(parameters, list):
            return super().execute(statement, parameters, execution_options=execution_options)
        plans = self._plans.get(statement)
        if plans is None:
            self._plans[statement] = {}
            return super().execute(statement, parameters)
        given = parameters or {}
        names = tuple(given)
        if names not in plans:
            plans[names] = self._plan(statement, names)
        plan = plans[names]
        if plan is not None:
            try:
                return self._run(plan, given)
            except sqlite3.Error:
                # It had no effect. Execute it again through SQLAlchemy, which raises its own error.
                pass
        return super().execute(statement, parameters)

    def _run(self, plan: _Plan, given: Mapping[str, Any]) -> Rows:
        cursor = self._raw.execute(plan.text, plan.values(given))
        if plan.metadata is not None:
            return Rows(plan.metadata, iter(cursor.fetchall()))
        done = Rows(_NOTHING, iter(()))
        done.rowcount = cursor.rowcount
        return done

    def _plan(self, statement: Any, names: tuple[str, ...]) -> _Plan | None:
        compiled = statement.compile(dialect=self.dialect, column_keys=list(names))
        if not isinstance(compiled, SQLCompiler) or compiled.isplaintext or _is_special(compiled):
            return None
        keys = {name: bind for bind, name in compiled.bind_names.items()}
        converts: Mapping[str, Any] = compiled._bind_processors  # noqa: SLF001
        binds = [(name, keys[name]) for name in compiled.positiontup or ()]
        if any(bind.callable is not None or (bind.required and bind.key not in names) for _, bind in binds):
            return None
        parameters = [_Parameter(bind.key, bind.value, converts.get(name)) for name, bind in binds]
        return _Plan(compiled.string, tuple(parameters), _metadata(compiled))


def _is_special(compiled: SQLCompiler) -> bool:
    is_dml = compiled.isinsert or compiled.isupdate or compiled.isdelete
    has_defaults = bool(is_dml and (compiled.insert_prefetch or compiled.update_prefetch))
    has_lists = bool(compiled.post_compile_params or compiled.literal_execute_params)
    # Implicit RETURNING is the primary key of a new row, which SQLAlchemy reads.
    return has_defaults or has_lists or bool(compiled.implicit_returning)


def _metadata(compiled: SQLCompiler) -> SimpleResultMetaData | None:
    columns = compiled._result_columns  # noqa: SLF001
    if not columns:
        return None
    converts = [column.type._cached_result_processor(compiled.dialect, None) for column in columns]  # noqa: SLF001
    has_any = any(convert is not None for convert in converts)
    names = [column.keyname for column in columns]
    return SimpleResultMetaData(
        names, extra=[tuple(column.objects) for column in columns], _processors=converts if has_any else None
    )
