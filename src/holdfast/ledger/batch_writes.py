"""What a batch of a pool writes.

On PostgreSQL every statement is a round trip, and while it is under way hundreds of requests are answered and begun
before anyone sees that it is back, all of which whoever waits for the pool's lock waits for, too. So all of it is one
statement there. On SQLite a statement costs next to nothing, and plain values are quicker than JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, Update, bindparam, insert, update

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation
from holdfast.domain.state import Changes, Event, Remembered
from holdfast.ledger.rows import encode_rows, insert_rows, insertion, update_rows
from holdfast.ledger.tables import events, idempotency, pools, reservations

_EVENT_COLUMNS = [events.c[name] for name in ("sku_id", "reservation_id", "type", "at", "quantity", "expires_at")]
_MOVED_COLUMNS = [reservations.c.status, reservations.c.expires_at]
_insert_pool = insert(pools)
_of_pool = pools.c.sku_id == bindparam("of_sku_id")

Rows = list[tuple[object, ...]]


class BatchWrites(Protocol):
    def write(self, connection: Connection, changes: Changes, counted: bool, pool: Mapping[str, object]) -> None:
        """Everything but the pool, if that is new: it has been written then."""


def store_changes(
    connection: Connection, writes: BatchWrites, changes: Changes, now: int, *, is_new: bool, counted: bool
) -> None:
    """Without a pool in the changes there are none: it remembers when something happened."""
    if changes.pool is None:
        return
    values = _pool_values(changes.pool, now)
    if is_new:
        connection.execute(_insert_pool, {"sku_id": changes.pool.sku_id, **values})
    writes.write(connection, changes, counted, {"of_sku_id": changes.pool.sku_id, **values})


class SqliteWrites:
    def __init__(self) -> None:
        self._update_pool = update(pools).where(_of_pool)
        self._insert_reservations = insert_rows("sqlite", reservations, list(reservations.c))
        self._update_reservations = update_rows("sqlite", reservations, reservations.c.reservation_id, _MOVED_COLUMNS)
        self._insert_events = insert_rows("sqlite", events, _EVENT_COLUMNS)
        self._insert_keys = insert_rows("sqlite", idempotency, list(idempotency.c))

    def write(self, connection: Connection, changes: Changes, counted: bool, pool: Mapping[str, object]) -> None:
        self._insert_reservations(connection, reservation_rows(changes.created, counted))
        if changes.moved:
            connection.execute(self._update_reservations, {"rows": encode_rows(_moved_rows(changes.moved))})
        self._insert_events(connection, _event_rows(str(pool["of_sku_id"]), changes.events))
        self._insert_keys(connection, key_rows(changes.remembered))
        connection.execute(self._update_pool, pool)


class PostgresWrites:
    def __init__(self) -> None:
        self._write = _all_at_once()

    def write(self, connection: Connection, changes: Changes, counted: bool, pool: Mapping[str, object]) -> None:
        rows = {
            "created": reservation_rows(changes.created, counted),
            "moved": _moved_rows(changes.moved),
            "events": _event_rows(str(pool["of_sku_id"]), changes.events),
            "keys": key_rows(changes.remembered),
        }
        connection.execute(self._write, {**pool, **{name: encode_rows(part) for name, part in rows.items()}})


def _all_at_once() -> Update:
    """The order of its parts is not told, and does not matter: none of them touches what another does."""
    dialect, key = "postgresql", reservations.c.reservation_id
    parts: dict[str, Any] = {
        "created": insertion(dialect, reservations, list(reservations.c), "created"),
        "moved": update_rows(dialect, reservations, key, _MOVED_COLUMNS, "moved"),
        "events": insertion(dialect, events, _EVENT_COLUMNS, "events"),
        "keys": insertion(dialect, idempotency, list(idempotency.c), "keys"),
    }
    return update(pools).where(_of_pool).add_cte(*(part.cte(f"write_{name}") for name, part in parts.items()))


def _pool_values(pool: Pool, now: int) -> dict[str, object]:
    rules = pool.rules
    return {
        "total": pool.total,
        "held": pool.held,
        "sold": pool.sold,
        "active_reservations": pool.active_reservations,
        "ready": pool.ready,
        "per_owner_limit": rules.per_owner_limit,
        "hold_budget": rules.hold_budget,
        "required_tier": rules.required_tier,
        "opens_at": rules.opens_at,
        "ends_at": rules.ends_at,
        "paused": rules.paused,
        "decided_at": now,
    }


def reservation_rows(made: Sequence[Reservation], counted: bool) -> Rows:
    # Plain values: for an enum or a bool, sqlite3 goes looking for an adapter each time.
    is_counted = int(counted)
    return [
        (r.reservation_id, r.sku_id, r.owner_id, r.quantity, str(r.status), r.created_at, r.expires_at, is_counted)
        for r in made
    ]


def _moved_rows(moved: Sequence[Reservation]) -> Rows:
    return [(r.reservation_id, r.status, r.expires_at) for r in moved]


def _event_rows(sku_id: str, happened: Sequence[Event]) -> Rows:
    return [(sku_id, e.reservation_id, e.type, e.at, e.quantity, e.expires_at) for e in happened]


def key_rows(firsts: Sequence[Remembered]) -> Rows:
    kept = [(f.owner_id, f.key, f.fingerprint, f.reservation) for f in firsts]
    return [
        (r.sku_id, owner_id, key, fingerprint, r.reservation_id, r.quantity, r.created_at, r.expires_at)
        for owner_id, key, fingerprint, r in kept
    ]
