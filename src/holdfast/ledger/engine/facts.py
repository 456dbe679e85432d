"""Facts: the values that an event gave to rows, recorded in the event itself.

`holdfast verify` replays them into the rows that must exist and compares every column (`verify/replay.py`). The facts
of a reservation are few, because its events already have most of them: `owner_id`; `key` and `fingerprint` if it was
requested under a key; `created_at` only if it differs from the time of the event; `sale_id` if a settlement began. All
other facts are rows by table, with their primary key and the columns that were written. Deleted rows are listed under
`removed`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Table, insert

from holdfast.ledger.tables.stock import events

NO_FACTS = "{}"
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode_facts(facts: Mapping[str, object]) -> str:
    return _encode(facts).decode() if facts else NO_FACTS


def row_facts(table: Table, row: Row[Any] | Mapping[str, object]) -> dict[str, object]:
    """All columns of a row; verify knows which of them may have any value."""
    values = row if isinstance(row, Mapping) else row._mapping  # noqa: SLF001 - the documented way to columns by name
    return {c.name: values[c.name] for c in table.c if c.name in values}


def record(connection: Connection, sku_id: str, type_: str, at: int, facts: Mapping[str, object], **more: Any) -> None:
    """Write an event with its facts."""
    values = {"sku_id": sku_id, "type": type_, "at": at, "facts": encode_facts(facts)}
    connection.execute(insert(events).values(**values, **more))
