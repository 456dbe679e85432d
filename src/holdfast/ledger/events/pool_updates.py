"""The counts of pools that changed since they were last published, at most once a second for each pool.

The model. `pool_updates` has the last published counts. A pass compares them with those of the pools (the shards of a
split pool count as one) and records the differences. That is one statement per second, whatever the sales rate, and
transactions that sell do no extra work. A change that is undone between two passes is not published.

A row has an increasing number, assigned under the lock of the stream's row. So passes of several processes are
serialized, and one that comes too soon after the last does nothing.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, literal_column, or_, select, update

from holdfast.domain.stock.event_type import EventType, wanted_types
from holdfast.ledger.engine.rows import encode_rows, insert_rows, rows_parameter, upsert_rows
from holdfast.ledger.events.cloud_event import encode, pool_counts
from holdfast.ledger.events.outbox import delivery_id
from holdfast.ledger.events.streams import ensure_stream
from holdfast.ledger.events.webhooks import latest_seq, list_webhooks
from holdfast.ledger.mark.mark import read_incarnations
from holdfast.ledger.tables.stock import pools, splits
from holdfast.ledger.tables.streams import pool_updates, streams
from holdfast.ledger.tables.webhooks import deliveries

STREAM = "pool.updated"
SPACING_MS = 1_000
# Pools per pass; any others wait for the next.
UPDATES_MAX = 5_000

_COLUMNS = [pool_updates.c[name] for name in ("sku_id", "number", "total", "held", "sold", "sale_id", "at")]
_KEPT = ("webhook_id", "subject", "attempts", "due_at")
_NEW = [
    deliveries.c[name]
    for name in ("delivery_id", "webhook_id", "seq", "type", "subject", "body", "attempts", "due_at", "created_at")
]


class PoolUpdate(Struct, frozen=True):
    sku_id: str
    number: int
    total: int
    held: int
    sold: int
    sale_id: str | None
    at: int


class PoolUpdateQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._changed = _changed(dialect_name)
        self._upsert = upsert_rows(
            dialect_name, pool_updates, _COLUMNS, pool_updates.c.sku_id, [c for c in _COLUMNS if c.name != "sku_id"]
        )
        self._insert = insert_rows(dialect_name, deliveries, _NEW)
        self._delete_unsent = _delete_unsent(dialect_name)

    def anything_changed(self, connection: Connection) -> bool:
        return connection.execute(self._changed, {"at_most": 1}).first() is not None

    def write(self, connection: Connection, now: int) -> int:
        """Record the changes, with deliveries for subscribed webhooks. Returns how many."""
        ensure_stream(connection, STREAM)
        query = select(streams).where(streams.c.name == STREAM).with_for_update(skip_locked=True)
        stream = connection.execute(query).one_or_none()
        if stream is None or now - stream.updated_at < SPACING_MS:
            return 0
        rows = connection.execute(self._changed, {"at_most": UPDATES_MAX}).all()
        if not rows:
            return 0
        numbered = enumerate(rows, stream.update_number + 1)
        found = [PoolUpdate(r.sku_id, n, int(r.total), int(r.held), int(r.sold), r.sale_id, now) for n, r in numbered]
        values = [[getattr(update_, c.name) for c in _COLUMNS] for update_ in found]
        connection.execute(self._upsert, {"rows": encode_rows(values)})
        self._deliver(connection, found, now)
        reached = {"update_number": found[-1].number, "updated_at": now}
        connection.execute(update(streams).where(streams.c.name == STREAM).values(reached))
        return len(found)

    def _deliver(self, connection: Connection, found: Sequence[PoolUpdate], now: int) -> None:
        """Replaces a delivery that was not sent yet: a receiver that was down gets one per pool when it is back."""
        wanted = wanting(connection)
        if not wanted:
            return
        pairs = [(webhook_id, update_.sku_id) for webhook_id in wanted for update_ in found]
        unsent = connection.execute(self._delete_unsent, {"rows": encode_rows(pairs), "now": now})
        before = {(row.webhook_id, row.subject): row for row in unsent}
        prefix, seq, rows = id_prefix(connection), latest_seq(connection), []
        for update_ in found:
            number, body = f"{prefix}{update_.number}", encode_update(update_, prefix)
            for webhook_id in wanted:
                old = before.get((webhook_id, update_.sku_id))
                attempts, due_at = (0, now) if old is None else (old.attempts, old.due_at)
                name = delivery_id(webhook_id, number)
                rows.append((name, webhook_id, seq, STREAM, update_.sku_id, body, attempts, due_at, now))
        self._insert(connection, rows)


pool_update_queries = cache(PoolUpdateQueries)


def _delete_unsent(dialect_name: str) -> Any:
    """One statement, whose conditions hold for the rows at the time it locks them: leased deliveries stay."""
    given = rows_parameter(dialect_name, [deliveries.c.webhook_id, deliveries.c.subject])
    old = deliveries.alias("old")
    of_pairs = select(old.c.delivery_id).where(
        old.c.webhook_id == given.c.webhook_id,
        old.c.subject == given.c.subject,
        old.c.type == literal_column(f"'{STREAM}'"),
        old.c.state == literal_column("'waiting'"),
    )
    unsent = delete(deliveries).where(
        deliveries.c.delivery_id.in_(of_pairs),
        deliveries.c.state == literal_column("'waiting'"),
        deliveries.c.leased_until <= bindparam("now"),
    )
    return unsent.returning(*[deliveries.c[name] for name in _KEPT])


def _changed(dialect_name: str) -> Any:
    """The counts of SKUs that differ from the published ones, the least recently published first."""
    is_split = dialect_name == "postgresql"
    sku_id: ColumnElement[str] = func.split_part(pools.c.sku_id, "/", 1) if is_split else pools.c.sku_id
    total = func.coalesce(func.max(splits.c.total), func.sum(pools.c.total))
    held, sold = func.sum(pools.c.held), func.sum(pools.c.sold)
    of_split = and_(splits.c.sku_id == sku_id, splits.c.shards > 1)
    summed = select(sku_id.label("sku_id"), total.label("total"), held.label("held"), sold.label("sold"))
    summed = summed.add_columns(func.max(pools.c.sale_id).label("sale_id"))
    counts = summed.select_from(pools.outerjoin(splits, of_split)).group_by(sku_id).subquery("counts")
    said = pool_updates.c
    differs = [counts.c[name] != said[name] for name in ("total", "held", "sold")]
    query = select(counts).select_from(counts.outerjoin(pool_updates, said.sku_id == counts.c.sku_id))
    query = query.where(or_(said.sku_id.is_(None), *differs))
    return query.order_by(func.coalesce(said.number, 0), counts.c.sku_id).limit(bindparam("at_most"))


def wanting(connection: Connection) -> list[str]:
    """The subscribed webhooks."""
    enabled = [hook for hook in list_webhooks(connection) if hook.disabled_at is None]
    return [hook.webhook_id for hook in enabled if EventType.POOL_UPDATED in wanted_types(hook.events)]


def updates_after(connection: Connection, number: int, limit: int) -> list[PoolUpdate]:
    query = select(*_COLUMNS).where(pool_updates.c.number > number).order_by(pool_updates.c.number).limit(limit)
    return [PoolUpdate(*row) for row in connection.execute(query)]


def id_prefix(connection: Connection) -> str:
    """Update numbers start again when a ledger went back; the incarnation keeps the IDs unique."""
    history = read_incarnations(connection)
    return f"{history[-1].incarnation}_u" if history else "u"


def encode_update(update_: PoolUpdate, prefix: str) -> str:
    data = {"sku_id": update_.sku_id, "sale_id": update_.sale_id}
    counts = pool_counts(update_.total, update_.held, update_.sold)
    return encode(f"evt_{prefix}{update_.number}", STREAM, update_.sku_id, update_.at, data | counts)
