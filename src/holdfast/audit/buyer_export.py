"""Everything the ledger has about one buyer, by table."""

from typing import Any

from sqlalchemy import Connection, Table, select

from holdfast.ledger.schema import metadata
from holdfast.ledger.tables.stock import events, reservations

# The kinds of values that name a buyer, by column.
_NAMING = ("buyer_id", "owner_id", "account")
# Ids per statement.
_NAMED_MAX = 500


def buyer_rows(connection: Connection, buyer_id: str) -> dict[str, list[dict[str, Any]]]:
    """The rows that name the buyer, and the history of their reservations. Tables without such rows are left out."""
    found = {table.name: _naming(connection, table, buyer_id) for table in metadata.sorted_tables}
    ids = [row["reservation_id"] for row in found[reservations.name]]
    history = list[dict[str, Any]]()
    for at in range(0, len(ids), _NAMED_MAX):
        wanted = select(events).where(events.c.reservation_id.in_(ids[at : at + _NAMED_MAX])).order_by(events.c.seq)
        history += [row._asdict() for row in connection.execute(wanted)]
    found[events.name] = history
    return {name: rows for name, rows in found.items() if rows}


def _naming(connection: Connection, table: Table, buyer_id: str) -> list[dict[str, Any]]:
    column = next((table.c[name] for name in _NAMING if name in table.c), None)
    if column is None:
        return []
    wanted = select(table).where(column.in_((buyer_id, f"buyer:{buyer_id}")))
    return [row._asdict() for row in connection.execute(wanted)]
