"""The writes of a batch for one pool.

On PostgreSQL every statement is a round trip, during which the event loop serves hundreds of other requests before it
sees the reply; everything that waits for the pool's lock is delayed too. So all writes are one statement there. On
SQLite a statement costs next to nothing, and plain values are faster than JSON.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, Update, bindparam, insert, update

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.state import Changes, Event, Remembered
from holdfast.ledger.engine.facts import NO_FACTS, encode_facts
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.rows import encode_rows, insert_rows, insertion, update_rows
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations

_EVENT_COLUMNS = [
    events.c[name] for name in ("sku_id", "reservation_id", "type", "at", "quantity", "expires_at", "subject", "facts")
]
_MOVED_COLUMNS = [reservations.c[name] for name in ("status", "expires_at", "attempts", "confirmed_at")]
# The keys of `_pool_values`.
_POOL_COLUMNS = (
    *("total", "held", "sold", "active_reservations", "ready"),
    *("per_owner_limit", "hold_budget", "required_tier", "opens_at", "ends_at", "paused", "decided_at"),
)
_insert_pool = insert(pools)
_of_pool = pools.c.sku_id == bindparam("of_sku_id")
CREATED, SETTLING = "reservation.created", "reservation.settling"
# The rules of the pool, or its readiness, changed.
POOL_CHANGED = "pool.changed"
# A key that was stored later than its reservation.
KEY_STORED = "key.stored"

_encode = msgspec.json.Encoder().encode

Rows = list[tuple[object, ...]]


class BatchWrites(Protocol):
    def write(
        self, connection: Connection, changes: Changes, told: Rows, counted: bool, pool: Mapping[str, object]
    ) -> bool:
        """Everything except a new pool, which is already written. `told` are the rows of the events."""


def store_changes(
    connection: Connection,
    writes: BatchWrites,
    changes: Changes,
    now: int,
    *,
    before: Pool | None,
    counted: bool,
    sale_id: str | None = None,
    conditions: Mapping[str, object] = {},
) -> bool:
    """Every change includes the pool, so without a pool there is nothing to write. `sale_id`: the sale whose
    settlements begin with this batch. `conditions`: parameters for the conditions of the writes. Returns false if those
    do not hold."""
    if changes.pool is None:
        return True
    values = _pool_values(changes.pool, now)
    if before is None:
        connection.execute(_insert_pool, {"sku_id": changes.pool.sku_id, **values})
    told = event_rows(changes, before, now, sale_id)
    return writes.write(connection, changes, told, counted, {"of_sku_id": changes.pool.sku_id, **values, **conditions})


class SqliteWrites:
    def __init__(self) -> None:
        self._update_pool = prepared("sqlite", update(pools).where(_of_pool), sets=_POOL_COLUMNS)
        self._insert_reservations = insert_rows("sqlite", reservations, list(reservations.c))
        key = reservations.c.reservation_id
        self._update_reservations = prepared("sqlite", update_rows("sqlite", reservations, key, _MOVED_COLUMNS))
        self._insert_events = insert_rows("sqlite", events, _EVENT_COLUMNS)
        self._insert_keys = insert_rows("sqlite", idempotency, list(idempotency.c))

    def write(
        self, connection: Connection, changes: Changes, told: Rows, counted: bool, pool: Mapping[str, object]
    ) -> bool:
        self._insert_reservations(connection, reservation_rows(changes.created, counted))
        if changes.moved:
            self._update_reservations.run(connection, {"rows": encode_rows(_moved_rows(changes.moved))})
        self._insert_events(connection, told)
        self._insert_keys(connection, key_rows(changes.remembered))
        return self._update_pool.run(connection, pool)


class PostgresWrites:
    def __init__(self, *conditions: ColumnElement[bool], creates: bool = True) -> None:
        """Nothing is written unless the conditions hold. `creates`: whether reservations are created."""
        self._write = prepared("postgresql", _single_statement(conditions, creates), sets=_POOL_COLUMNS)

    def write(
        self, connection: Connection, changes: Changes, told: Rows, counted: bool, pool: Mapping[str, object]
    ) -> bool:
        rows = {
            "created": reservation_rows(changes.created, counted),
            "moved": _moved_rows(changes.moved),
            "events": told,
            "keys": key_rows(changes.remembered),
        }
        return self._write.run(connection, {**pool, **{name: encode_rows(part) for name, part in rows.items()}})


def _single_statement(conditions: Sequence[ColumnElement[bool]], creates: bool) -> Update:
    """The execution order of its parts is undefined, but irrelevant: no two of them touch the same rows."""
    dialect, key = "postgresql", reservations.c.reservation_id
    parts: dict[str, Any] = {
        "moved": update_rows(dialect, reservations, key, _MOVED_COLUMNS, "moved", *conditions),
        "events": insertion(dialect, events, _EVENT_COLUMNS, "events", *conditions),
    }
    if creates:
        parts["created"] = insertion(dialect, reservations, list(reservations.c), "created", *conditions)
        parts["keys"] = insertion(dialect, idempotency, list(idempotency.c), "keys", *conditions)
    written = [part.cte(f"write_{name}") for name, part in parts.items()]
    return update(pools).where(_of_pool, *conditions).add_cte(*written)


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
    # Plain values: sqlite3 would search for an adapter for every enum or bool.
    is_counted = int(counted)
    return [
        (
            r.reservation_id,
            r.sku_id,
            r.owner_id,
            r.quantity,
            str(r.status),
            r.created_at,
            r.expires_at,
            is_counted,
            r.attempts,
            r.confirmed_at,
        )
        for r in made
    ]


def _moved_rows(moved: Sequence[Reservation]) -> Rows:
    return [(r.reservation_id, r.status, r.expires_at, r.attempts, r.confirmed_at) for r in moved]


def key_rows(firsts: Sequence[Remembered]) -> Rows:
    kept = [(f.owner_id, f.key, f.fingerprint, f.reservation) for f in firsts]
    return [
        (r.sku_id, owner_id, key, fingerprint, r.reservation_id, r.quantity, r.created_at, r.expires_at)
        for owner_id, key, fingerprint, r in kept
    ]


# --- events


class CreatedFacts(Struct, frozen=True, omit_defaults=True, gc=False):
    owner_id: str
    key: str | None = None
    fingerprint: str | None = None
    # Only if it differs from the time of the event.
    created_at: int | None = None
    # For a reservation that a ledger lost and gets back.
    attempts: int = 0


def event_rows(changes: Changes, before: Pool | None, now: int, sale_id: str | None) -> Rows:
    """`before` is the previous state of the pool. `sale_id`: the sale whose settlements begin with this batch."""
    pool = changes.pool
    assert pool is not None
    attempts = _attempts_before(changes)
    created = _Created(changes, attempts)
    settling = _settling(changes) if sale_id is not None else frozenset()
    rows: Rows = []
    for e in changes.events:
        facts = NO_FACTS
        if e.type == CREATED:
            facts = created.facts_of(e)
        elif e.type == SETTLING and e.reservation_id is not None:
            attempts[e.reservation_id] += 1
            said: dict[str, object] = {}
            if attempts[e.reservation_id] > 1:
                said["attempts"] = attempts[e.reservation_id]
            if e.reservation_id in settling:
                # If this is copied from a journal, the settlement begins later than the event.
                said |= {"sale_id": sale_id} if e.at == now else {"sale_id": sale_id, "settling_at": now}
            facts = encode_facts(said)
        rows.append((pool.sku_id, e.reservation_id, e.type, e.at, e.quantity, e.expires_at, None, facts))
    if before is None or before.rules != pool.rules or before.ready != pool.ready:
        rows.append((pool.sku_id, None, POOL_CHANGED, now, None, None, None, _pool_facts(before, pool)))
    return rows + [_key_row(pool.sku_id, first, now) for first in created.keys.values()]


class _Created:
    def __init__(self, changes: Changes, attempts: Mapping[str, int]) -> None:
        self._made = {r.reservation_id: r for r in changes.created}
        self._attempts = attempts
        self.keys = {first.reservation.reservation_id: first for first in changes.remembered}

    def facts_of(self, event: Event) -> str:
        made = self._made.get(event.reservation_id or "")
        if made is None:
            return NO_FACTS
        first = self.keys.pop(made.reservation_id, None)
        key, fingerprint = (None, None) if first is None else (first.key, first.fingerprint)
        created_at = None if made.created_at == event.at else made.created_at
        attempts = self._attempts.get(made.reservation_id, 0)
        return _encode(CreatedFacts(made.owner_id, key, fingerprint, created_at, attempts)).decode()


def _attempts_before(changes: Changes) -> defaultdict[str, int]:
    """How often payments had been attempted before this batch, by reservation."""
    changed = (*changes.created, *changes.moved)
    before = defaultdict(int, {r.reservation_id: r.attempts for r in changed if r.attempts})
    for e in changes.events:
        if e.type == SETTLING and e.reservation_id is not None and e.reservation_id in before:
            before[e.reservation_id] -= 1
    return before


def _settling(changes: Changes) -> frozenset[str]:
    changed = (*changes.created, *changes.moved)
    return frozenset(r.reservation_id for r in changed if r.status is Status.SETTLING)


def _pool_facts(before: Pool | None, pool: Pool) -> str:
    facts: dict[str, object] = {"pools": [_rules(pool)]}
    return encode_facts(facts if before is None else facts | {"before": _rules(before)})


def _rules(pool: Pool) -> dict[str, object]:
    return {"sku_id": pool.sku_id, "ready": pool.ready} | asdict(pool.rules)


def _key_row(sku_id: str, first: Remembered, now: int) -> tuple[object, ...]:
    r = first.reservation
    row = {"owner_id": first.owner_id, "key": first.key, "fingerprint": first.fingerprint}
    about = {"reservation_id": r.reservation_id, "quantity": r.quantity}
    times = {"created_at": r.created_at, "expires_at": r.expires_at}
    facts = encode_facts({"idempotency": [{"sku_id": sku_id} | row | about | times]})
    return (sku_id, None, KEY_STORED, now, None, None, r.reservation_id, facts)
