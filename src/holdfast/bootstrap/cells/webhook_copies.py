"""Webhooks of the control database, copied into a cell: each cell relays its own events to all of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.stock.pool_counts import insert_for
from holdfast.ledger.tables.webhooks import webhooks
from holdfast.runtime.agent import Agent
from holdfast.webhooks.admin import remove

EVERY_S = 1.0
# A cell counts for itself which of its events it has relayed.
_OWN = ("webhook_id", "relayed_seq")

Row = dict[str, Any]


class WebhookCopies:
    def __init__(self, control: Database, cell: Database) -> None:
        self._control, self._cell = control, cell
        self._copied: list[Row] | None = None

    def agent(self) -> Agent[None]:
        return Agent("webhook_copies", self.pass_once, EVERY_S)

    async def pass_once(self) -> None:
        wanted = [_without_progress(row) for row in await self._control.read(_rows)]
        if wanted == self._copied:
            return
        gone = await self._cell.write(partial(_copy, wanted))
        for webhook_id in gone:
            await remove(self._cell, webhook_id)
        self._copied = wanted


def _without_progress(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "relayed_seq"}


def _rows(connection: Connection) -> list[Row]:
    return [dict(row) for row in connection.execute(select(webhooks).order_by(webhooks.c.webhook_id)).mappings()]


def _copy(wanted: Sequence[Row], connection: Connection) -> list[str]:
    """Returns the IDs of those that are no longer wanted."""
    statement = insert_for(connection)(webhooks)
    changed = {column.name: statement.excluded[column.name] for column in webhooks.c if column.name not in _OWN}
    seq = latest_seq(connection)
    for row in wanted:
        added = statement.on_conflict_do_update(index_elements=["webhook_id"], set_=changed)
        connection.execute(added, {**row, "relayed_seq": seq})
    known = {row["webhook_id"] for row in wanted}
    return [row["webhook_id"] for row in _rows(connection) if row["webhook_id"] not in known]
