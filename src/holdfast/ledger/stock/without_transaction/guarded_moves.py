"""Moves, extensions and expirations on PostgreSQL without a transaction: a read that takes no lock, and one statement
that writes the decision if the pool has not changed since.

The model. One statement reads everything the rulebook needs from one snapshot, together with the version of the pool's
row. The rulebook decides between the two statements, while nobody waits for us. The write locks the row, compares its
version, and autocommits: two round trips instead of five to eight, and the lock is never held while our event loop is
busy. If nothing would change, there is no second statement, as for attempts (`decide_without_lock`).

The invariants. Everything that changes the stock of a pool, or its rules, changes its row under its lock (see the lock
order in `ledger/tables/stock.py`). So if the row still has the version that was read, all other inputs of the decision
are unchanged, too. The version is the transaction that wrote the row: unlike the row's physical location, it is never
reused. If the versions differ, nothing is written, and the batch falls back to a transaction.

When it fails. As in `single_statement_grant.py`: the next batches of that pool skip the attempt, and PostgreSQL stops
waiting for the lock before we stop waiting for PostgreSQL.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    String,
    Text,
    bindparam,
    cast,
    exists,
    func,
    literal_column,
    select,
    union_all,
)

from holdfast.domain.stock.command import Command, Expire, Extend, Move
from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.reservation import Reservation
from holdfast.domain.stock.state import Decision, State
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS, Clock
from holdfast.ledger.engine.database import ONLY_READ, Database
from holdfast.ledger.engine.limits import DEFAULT_LOCK, LockLimits, waiting_for_lock
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.rows import encode_rows, rows_matching
from holdfast.ledger.stock.batch_writes import PostgresWrites, store_changes
from holdfast.ledger.stock.decide import NO_CHANGES, decide_timed
from holdfast.ledger.stock.pool_counts import count_returns
from holdfast.ledger.stock.sale_batch import concerns_sale
from holdfast.ledger.stock.without_transaction.skipped_pools import SkippedPools
from holdfast.ledger.tables.rows import pool_from_row
from holdfast.ledger.tables.stock import is_active, pools, reservations

_VERSION = cast(literal_column("pools.xmin"), Text)
_sku_id = bindparam("of_sku", type_=String)
seen_version = bindparam("seen", type_=String)
_reservations = msgspec.json.Decoder(list[Reservation])


class GuardedMoves:
    def __init__(self) -> None:
        self._see = prepared("postgresql", _seen())
        self._writes = PostgresWrites(_pool_is_as_seen(), creates=False)
        self._skipped = SkippedPools()

    async def decide(
        self, database: Database, sku_id: str, commands: Sequence[Command], limits: LockLimits = DEFAULT_LOCK
    ) -> Decision | None:
        """None if nothing was written and the batch needs a transaction."""
        if not all(isinstance(c, Move | Extend | Expire) for c in commands) or self._skipped.skip(sku_id):
            return None
        decision = await database.write(lambda c: self._decide(c, database, sku_id, commands, limits), autocommit=True)
        if decision is None:
            self._skipped.add(sku_id)
        else:
            count_returns(sku_id, decision.changes.events)
        return decision

    def _decide(
        self, connection: Connection, clock: Clock, sku_id: str, commands: Sequence[Command], limits: LockLimits
    ) -> Decision | None:
        connection.info[ONLY_READ] = True
        wanted = _wanted(sku_id, commands, clock.known_now_ms())
        row = next(iter(self._see.all(connection, wanted)), None)
        if row is None:
            return decide_timed(State(sku_id), commands, 0)
        pool, now = pool_from_row(row), pool_time(row.at, row.decided_at)
        found = {r.reservation_id: r for r in _reservations.decode(row.found)}
        decision = decide_timed(State(sku_id, pool, found), commands, now)
        changes = decision.changes
        if changes == NO_CHANGES:
            return decision
        if row.sale_id is not None and concerns_sale(changes):
            return None
        del connection.info[ONLY_READ]
        as_seen = {"of_sku": sku_id, "seen": row.version, "wait_ms": str(limits.wait_ms)}
        is_done = store_changes(connection, self._writes, changes, now, before=pool, counted=False, conditions=as_seen)
        return decision if is_done else None


def _wanted(sku_id: str, commands: Sequence[Command], now: int | None) -> Mapping[str, object]:
    ids = [[c.reservation_id] for c in commands if isinstance(c, Move | Extend)]
    expiring = min(sum(c.limit for c in commands if isinstance(c, Expire)), DUE_RETURNED_MAX)
    # The named reservations may be among the earliest ones, and end before them.
    earliest = expiring + len(ids) if expiring else 0
    return {"of_sku": sku_id, "rows": encode_rows(ids), "now": now, "earliest": earliest}


def _seen() -> Select[Any]:
    of_pool = reservations.c.sku_id == _sku_id
    named = rows_matching("postgresql", reservations, [reservations.c.reservation_id], of_pool)
    earliest = (
        select(reservations)
        .where(of_pool, is_active)
        .order_by(reservations.c.expires_at, reservations.c.reservation_id)
        .limit(bindparam("earliest", type_=BigInteger))
        .subquery("earliest")
    )
    either = union_all(named, select(earliest)).subquery("either")
    rows = func.coalesce(func.json_agg(literal_column("either")), literal_column("'[]'"))
    found = select(cast(rows, Text)).select_from(either).scalar_subquery()
    now = func.coalesce(bindparam("now", type_=BigInteger), POSTGRES_NOW_MS)
    return select(pools, _VERSION.label("version"), now.label("at"), found.label("found")).where(
        pools.c.sku_id == _sku_id
    )


def is_as_seen(version: ColumnElement[str]) -> ColumnElement[bool]:
    return version == seen_version


def _pool_is_as_seen() -> ColumnElement[bool]:
    """As in `single_statement_grant.py`, the lock is taken in a subquery."""
    is_limited = waiting_for_lock(bindparam("wait_ms", type_=String))
    found = select(_VERSION.label("version")).where(pools.c.sku_id == _sku_id, is_limited).with_for_update()
    locked = found.subquery("locked")
    pool = select(literal_column("1")).select_from(locked).where(is_as_seen(locked.c.version)).cte("pool")
    return exists(select(literal_column("1")).select_from(pool))
