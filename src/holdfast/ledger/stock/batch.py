"""What a batch reads and what it writes, in a few set-wise statements."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)

from holdfast.domain.stock.command import Command, Extend, Give, Move, Provision, Reserve, Take
from holdfast.domain.stock.needs import counts_owners, needed_by_deadline
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import LIVE, RELEASED
from holdfast.domain.stock.state import Changes, Counters, Remembered, State, Tally
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS, Clock
from holdfast.ledger.engine.limits import DEFAULT_LOCK, LockLimits, holding_lock, waiting_for_lock
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.rows import encode_rows, rows_matching
from holdfast.ledger.stock.batch_writes import BatchWrites, PostgresWrites, SqliteWrites, store_changes
from holdfast.ledger.stock.pool_counts import count_returns
from holdfast.ledger.stock.sale_batch import SaleQueries
from holdfast.ledger.stock.transfers import counters_of, store_transfers
from holdfast.ledger.tables.rows import pool_from_row, remembered_from_row, reservation_from_row
from holdfast.ledger.tables.stock import idempotency, is_active, is_counted_in, pools, reservations


class Position(Struct, frozen=True):
    """Where Redis is the gate: the epoch of a pool, and the sequence up to which the ledger has its journal."""

    epoch: int = 0
    seq: int = 0

    @classmethod
    def of(cls, row: Any) -> "Position":
        """From a row of `pools`; no position if the pool is not in Redis."""
        return cls(row.epoch, row.journal_seq) if row.epoch > 0 else cls()


class LockedPool:
    """The pool's row, locked until the transaction ends. `pool` is None where there is no such pool yet."""

    def __init__(self, sku_id: str, row: Row[Any] | None, commands: Sequence[Command]) -> None:
        self.sku_id = sku_id
        self.pool = None if row is None else pool_from_row(row)
        self.decided_at: int = 0 if row is None else row.decided_at
        self.position = Position() if row is None else Position.of(row)
        self.last_epoch: int = 0 if row is None else abs(row.epoch)
        self.sale_id: str | None = None if row is None else row.sale_id
        self.counts_owners = counts_owners(self.pool, commands)
        self._limit_lowered_at: int | None = None if row is None else row.limit_lowered_at
        self._locked_at: int | None = None if row is None else row.locked_at

    def now(self, connection: Connection, clock: Clock) -> int:
        """The time, read under the lock."""
        known = clock.known_now_ms()
        if known is None:
            known = clock.now_ms(connection) if self._locked_at is None else self._locked_at
        return pool_time(known, self.decided_at)

    def may_exceed_limit(self, reservation: Reservation) -> bool:
        """Whether the owner's reservations may have been granted under a higher limit than the current one."""
        return self._limit_lowered_at is not None and reservation.created_at <= self._limit_lowered_at

    def lowers_limit(self, changes: Changes) -> bool:
        if self.pool is None or changes.pool is None:
            return False
        before, after = self.pool.rules.per_owner_limit, changes.pool.rules.per_owner_limit
        return after is not None and (before is None or after < before)


class BatchQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._dialect_name = dialect_name
        self._prepare_reads()
        self._prepare_writes()

    def _prepare_reads(self) -> None:
        dialect = self._dialect_name
        of_pool = reservations.c.sku_id == bindparam("sku_id")
        by_owner = [reservations.c.owner_id]
        # For a pool newer than its statistics, PostgreSQL expects one row and would read the whole pool for each owner
        # through an index on pools. So this condition must have no such index, and owners are found by theirs.
        of_their_pool = reservations.c.sku_id.concat(literal_column("''")) == bindparam("sku_id")
        counted = [of_pool if dialect == "sqlite" else of_their_pool, reservations.c.counted]

        of_name = pools.c.sku_id == bindparam("sku_id")
        self._lock_pool = prepared(dialect, _locked(dialect, select(pools).where(of_name)))
        self._lock_name = select(func.pg_advisory_xact_lock(func.hashtext(bindparam("sku_id"))))
        self._named = prepared(dialect, rows_matching(dialect, reservations, [reservations.c.reservation_id], of_pool))
        by_key, of_key = [idempotency.c.owner_id, idempotency.c.key], idempotency.c.sku_id == bindparam("sku_id")
        self._keys = prepared(dialect, rows_matching(dialect, idempotency, by_key, of_key))
        is_due = reservations.c.expires_at <= bindparam("now")
        self._due_of_owners = prepared(
            dialect, rows_matching(dialect, reservations, by_owner, *counted, is_active, is_due)
        )
        in_sale = is_counted_in(bindparam("sku_id", type_=String))
        theirs = rows_matching(dialect, reservations, by_owner, *counted, in_sale).subquery("theirs")
        live_units = func.sum(case((_is_one_of(theirs.c.status, LIVE), theirs.c.quantity), else_=0))
        released = func.sum(case((_is_one_of(theirs.c.status, RELEASED), 1), else_=0))
        self._tallies = prepared(dialect, select(theirs.c.owner_id, live_units, released).group_by(theirs.c.owner_id))
        earliest = (
            select(reservations)
            .where(of_pool, is_active)
            .order_by(reservations.c.expires_at, reservations.c.reservation_id)
            .limit(bindparam("limit"))
        )
        self._due = prepared(dialect, earliest.where(is_due))
        self._later = prepared(dialect, earliest.where(reservations.c.expires_at > bindparam("now")))
        first = earliest.limit(1).subquery("first")
        named = [c.label(f"first_{c.name}") for c in first.c]
        self.see_pool = select(pools, *named).select_from(pools.outerjoin(first, true())).where(of_name)
        self._see_pool = prepared(dialect, self.see_pool)

    def _prepare_writes(self) -> None:
        dialect = self._dialect_name
        self._count_all = (
            update(reservations)
            .where(reservations.c.sku_id == bindparam("of_sku_id"), ~reservations.c.counted)
            .values(counted=True)
        )
        self._writes: BatchWrites = SqliteWrites() if dialect == "sqlite" else PostgresWrites()
        self.sales = SaleQueries(dialect)

    def lock(
        self,
        connection: Connection,
        sku_id: str,
        commands: Sequence[Command],
        limits: LockLimits = DEFAULT_LOCK,
    ) -> LockedPool:
        given = {"sku_id": sku_id, "wait_ms": str(limits.wait_ms), "hold_ms": str(limits.hold_ms)}
        row = next(iter(self._lock_pool.all(connection, given)), None)
        creating = row is None and any(isinstance(c, Provision) for c in commands)
        if creating and self._dialect_name == "postgresql":
            # There is no row to lock yet, so processes that create the same pool lock its name.
            connection.execute(self._lock_name, {"sku_id": sku_id})
            row = next(iter(self._lock_pool.all(connection, given)), None)
        return LockedPool(sku_id, row, commands)

    def see(self, connection: Connection, sku_id: str, attempts: Sequence[Reserve]) -> tuple[State, int]:
        """Reads, without a lock, what attempts need that change nothing, and when the pool last changed.

        The only reservation read is the one with the earliest deadline: if it is due, something will change.
        """
        row = next(iter(self._see_pool.all(connection, {"sku_id": sku_id})), None)
        if row is None:
            return State(sku_id), 0
        pool, first = pool_from_row(row), first_in(row)
        tallies = self._load_tallies(connection, sku_id, attempts) if pool.rules.count_owners else {}
        keys = self._load_keys(connection, sku_id, attempts)
        return State(sku_id, pool, {r.reservation_id: r for r in first}, keys, tallies), row.decided_at

    def load(self, connection: Connection, locked: LockedPool, commands: Sequence[Command], now: int) -> State:
        pool, sku_id = locked.pool, locked.sku_id
        if pool is None:
            return State(sku_id)
        # Nearly all are attempts to reserve.
        others = [c for c in commands if type(c) is not Reserve]
        found = self._load_named(connection, sku_id, others)
        tallies: dict[str, Tally] = {}
        if locked.counts_owners:
            if not pool.rules.count_owners:
                connection.execute(self._count_all, {"of_sku_id": sku_id})
            if len(others) < len(commands):
                given = {"sku_id": sku_id, "rows": _owners_of(commands)}
                found += _reservations(self._due_of_owners.all(connection, {**given, "now": now}))
                tallies = self._load_tallies(connection, sku_id, commands)
            # Ending overdue holds also changes tallies of owners without an attempt in this batch; those are not
            # needed.
        needed = needed_by_deadline(pool, commands, len(found))
        for statement, limit in ((self._due, needed.due), (self._later, needed.later)):
            if limit:
                found += _reservations(statement.all(connection, {"sku_id": sku_id, "now": now, "limit": limit}))
        return State(
            sku_id,
            pool,
            {r.reservation_id: r for r in found},
            self._load_keys(connection, sku_id, commands),
            tallies,
            counters_of(connection, sku_id) if any(isinstance(c, Give | Take) for c in others) else Counters(),
        )

    def _load_named(self, connection: Connection, sku_id: str, commands: Sequence[Command]) -> list[Reservation]:
        ids = [[c.reservation_id] for c in commands if isinstance(c, Move | Extend)]
        if not ids:
            return []
        return _reservations(self._named.all(connection, {"sku_id": sku_id, "rows": encode_rows(ids)}))

    def _load_tallies(self, connection: Connection, sku_id: str, commands: Sequence[Command]) -> dict[str, Tally]:
        rows = self._tallies.all(connection, {"sku_id": sku_id, "rows": _owners_of(commands)})
        return {row[0]: Tally(int(row[1]), int(row[2])) for row in rows}

    def live_units(self, connection: Connection, sku_id: str, owners: Iterable[str]) -> dict[str, int]:
        """The units that count towards the limit of each of these owners."""
        rows = encode_rows([owner] for owner in set(owners))
        return {row[0]: int(row[1]) for row in self._tallies.all(connection, {"sku_id": sku_id, "rows": rows})}

    def _load_keys(
        self, connection: Connection, sku_id: str, commands: Sequence[Command]
    ) -> dict[tuple[str, str], Remembered]:
        return self.remembered(
            connection, sku_id, {(c.owner_id, c.key) for c in commands if type(c) is Reserve and c.key is not None}
        )

    def remembered(
        self, connection: Connection, sku_id: str, keys: set[tuple[str, str]]
    ) -> dict[tuple[str, str], Remembered]:
        """The first results under these idempotency keys, each with its owner."""
        if not keys:
            return {}
        rows = self._keys.all(connection, {"sku_id": sku_id, "rows": encode_rows(keys)})
        return {(row.owner_id, row.key): remembered_from_row(row) for row in rows}

    def store(self, connection: Connection, locked: LockedPool, changes: Changes, now: int) -> None:
        """Store the changes and their effects on the pool's sale: new settlements, orders paid externally."""
        self.store_stock(connection, locked, changes, now, locked.sale_id)
        if locked.sale_id is not None:
            self.sales.record(connection, locked.sale_id, changes, now)

    def store_stock(
        self, connection: Connection, locked: LockedPool, changes: Changes, now: int, sale_id: str | None = None
    ) -> None:
        """`sale_id`: the sale whose settlements begin with these changes."""
        before, counted = locked.pool, locked.counts_owners
        store_changes(connection, self._writes, changes, now, before=before, counted=counted, sale_id=sale_id)
        count_returns(locked.sku_id, changes.events)
        if locked.lowers_limit(changes):
            connection.execute(update(pools).where(pools.c.sku_id == locked.sku_id).values(limit_lowered_at=now))
        if changes.given or changes.taken:
            store_transfers(connection, changes, now)


def _is_one_of(column: ColumnElement[str], values: Iterable[str]) -> ColumnElement[bool]:
    """An IN is rendered anew for every execution, which takes longer than this statement itself."""
    return or_(*(column == value for value in values))


def _locked(dialect_name: str, pool: Select[Any]) -> Select[Any]:
    """On PostgreSQL also reads the time, which saves another round trip. The lock is taken in a subquery, because only
    expressions outside of it are evaluated after the lock is granted."""
    if dialect_name == "sqlite":
        # On SQLite the transaction is the lock, and the clock is our own.
        return pool.add_columns(null().label("locked_at"))
    limited = pool.where(waiting_for_lock(bindparam("wait_ms", type_=String)))
    locked = limited.with_for_update().subquery("locked")
    until = holding_lock(bindparam("hold_ms", type_=String))
    return select(locked, POSTGRES_NOW_MS.label("locked_at"), until.label("hold_ms"))


def first_in(row: Row[Any]) -> list[Reservation]:
    """The reservation with the earliest deadline, if it was read together with the row of a pool."""
    if row.first_reservation_id is None:
        return []
    return [
        Reservation(
            row.first_reservation_id,
            row.first_sku_id,
            row.first_owner_id,
            row.first_quantity,
            Status(row.first_status),
            row.first_created_at,
            row.first_expires_at,
            row.first_attempts,
        )
    ]


def _owners_of(commands: Sequence[Command]) -> str:
    return encode_rows([o] for o in {c.owner_id for c in commands if type(c) is Reserve})


def _reservations(rows: Any) -> list[Reservation]:
    return [reservation_from_row(row) for row in rows]


@cache
def batch_queries(dialect_name: str) -> BatchQueries:
    """Building the statements takes milliseconds; a process does it once per dialect."""
    return BatchQueries(dialect_name)
