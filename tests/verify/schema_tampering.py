"""Every change that can be made to a row of a table, made from the schema: a new column is covered by itself."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Integer,
    Table,
    and_,
    delete,
    insert,
    select,
    update,
)

# What tells rows of a table apart that are written or checked in different ways. One row of each kind is changed.
KINDS: dict[str, tuple[str, ...]] = {
    "events": ("type",),
    "reservations": ("status",),
    "orders": ("status", "payment"),
    "payments": ("state", "provider"),
    "settlements": ("ending",),
    "refunds": ("currency",),
    "wallet_entries": ("kind", "reservation_id IS NULL", "balance IS NULL"),
    "places": ("place IS NULL", "used_at IS NULL", "ended_at IS NULL"),
    "idempotency": ("quantity",),
    "deliveries": ("state",),
}
DELETED, ADDED = "deleted", "added"
_STATE = re.compile(r"^(\w+) IN \(([^)]*)\)$")


class Tampering(Struct, frozen=True):
    # A column, or what was done to a whole row.
    what: str
    # Which row, and what it has now.
    about: str
    make: Callable[[Connection], None]


def changes_of(connection: Connection, table: Table) -> Iterator[Tampering]:
    for row in _row_of_each_kind(connection, table):
        for column in table.c:
            for value in _other_values(column, row[column.name]):
                yield _changed(table, column, row, value)
        yield Tampering(DELETED, _about(table, row), _deleting(table, row))
        yield Tampering(ADDED, _about(table, row), _adding(table, row))


def _row_of_each_kind(connection: Connection, table: Table) -> list[dict[str, Any]]:
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
        found.setdefault(_kind(table, dict(row)), dict(row))
    return list(found.values())


def _kind(table: Table, row: dict[str, Any]) -> tuple[object, ...]:
    if table.name not in KINDS:
        return tuple(row[c.name] for c in table.primary_key)
    asked = [name.partition(" ") for name in KINDS[table.name]]
    return tuple(row[name] is None if rest else row[name] for name, _, rest in asked)


def _other_values(column: Column[Any], value: Any) -> list[Any]:
    """Of the same type, and where a column may be empty, emptied or filled."""
    emptied = [None] if column.nullable and value is not None else []
    if isinstance(column.type, Boolean):
        return [not value, *emptied]
    if isinstance(column.type, BigInteger | Integer):
        return [7 if value is None else value + 1, *emptied]
    if value is None:
        return ["x"]
    if isinstance(value, bytes):
        return [value + b"x", *emptied]
    known = _known_states(column)
    return [next(state for state in known if state != value) if known else _other_text(value), *emptied]


def _known_states(column: Column[Any]) -> list[str]:
    for constraint in column.table.constraints:
        match = _STATE.match(str(constraint.sqltext)) if isinstance(constraint, CheckConstraint) else None
        if match is not None and match[1] == column.name:
            return re.findall(r"'(\w+)'", match[2])
    return []


def _other_text(value: str) -> str:
    """JSON stays JSON."""
    if value[:1] not in ("{", "["):
        return f"{value}x"
    return json.dumps(_with_other_leaf(json.loads(value)))


def _with_other_leaf(value: Any) -> Any:
    if isinstance(value, dict):
        if not value:
            return {"x": 1}
        name = next(iter(value))
        return value | {name: _with_other_leaf(value[name])}
    if isinstance(value, list):
        return [_with_other_leaf(value[0]), *value[1:]] if value else [1]
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def _changed(table: Table, column: Column[Any], row: dict[str, Any], value: Any) -> Tampering:
    def make(connection: Connection) -> None:
        connection.execute(update(table).where(_is(table, row)).values({column.name: value}))

    return Tampering(column.name, f"{_about(table, row)}: {row[column.name]} -> {value}", make)


def _deleting(table: Table, row: dict[str, Any]) -> Callable[[Connection], None]:
    return lambda connection: _execute(connection, delete(table).where(_is(table, row)))


def _adding(table: Table, row: dict[str, Any]) -> Callable[[Connection], None]:
    """A copy under other keys."""
    unique = {c.name for c in table.primary_key} | {c.name for c in table.c if c.unique}
    copied = row | {name: _other_values(table.c[name], row[name])[0] for name in unique}
    if table.name == "events":
        del copied["seq"]
    return lambda connection: _execute(connection, insert(table).values(copied))


def _execute(connection: Connection, statement: Any) -> None:
    connection.execute(statement)


def _is(table: Table, row: dict[str, Any]) -> Any:
    return and_(*(c == row[c.name] for c in table.primary_key))


def _about(table: Table, row: dict[str, Any]) -> str:
    kind = "/".join(str(part) for part in _kind(table, row))
    return f"{kind} {'/'.join(str(row[c.name]) for c in table.primary_key)}"
