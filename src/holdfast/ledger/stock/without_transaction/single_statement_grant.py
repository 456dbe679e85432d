"""Reserves for a crowd on PostgreSQL in one statement that locks the pool, checks the stock and grants every attempt.

The model. In a rush, a batch is nothing but attempts, by owners who have nothing here yet, at a pool with enough units
for all of them. Nothing has to be decided between reading and writing, so both are one autocommitted statement: one
round trip instead of four, and the lock is never held while our event loop is busy. The verdicts still come from the
rulebook, based on what the statement read.

The invariants. The statement writes only if the rulebook would grant every attempt in full: the pool, under the lock,
is open to all of them and has enough free units, and none of their keys was used. Where the rules count owners' units,
each owner appears once, has nothing here, and requests no more than the limit. Keys and owners are read as of the start
of the statement, so they count only if the pool has not changed since (every reserve writes its row); where only keys
matter, the table itself refuses a duplicate. In every other case nothing is written, and the batch falls back to a
transaction.

When it fails. A failed attempt has waited for the lock, and the transaction waits again. So after one, the next batches
of that pool skip it. PostgreSQL stops waiting for the lock before we stop waiting for PostgreSQL: otherwise an
abandoned statement could still grant after its callers were told that the outcome is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Select,
    String,
    Subquery,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from holdfast.domain.stock.command import Command, Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool_time import CLOCK_SKEW_MS
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Decision, State
from holdfast.errors import OutcomeUnknown
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import DEFAULT_LOCK, LockLimits, waiting_for_lock
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.stock.without_transaction.skipped_pools import SkippedPools
from holdfast.ledger.tables.rows import pool_from_row
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations

UNIQUE_VIOLATION = "23505"
_LARGEST = 2**63 - 1

_GIVEN: list[Column[Any]] = [
    Column("number", BigInteger),
    *(Column(name, String) for name in ("reservation_id", "owner_id", "key", "fingerprint")),
    *(Column(name, BigInteger) for name in ("quantity", "ttl_ms")),
]
_VERSION: ColumnElement[str] = literal_column("pools.ctid")
_sku_id = bindparam("of_sku", type_=String)
_units, _most = bindparam("units", type_=BigInteger), bindparam("most", type_=BigInteger)
_least_tier, _owners_differ = bindparam("least_tier", type_=BigInteger), bindparam("owners_differ", type_=Boolean)


class SingleStatementGrant:
    def __init__(self) -> None:
        self._statement = prepared("postgresql", _statement())
        self._skipped = SkippedPools()

    async def decide(
        self, database: Database, sku_id: str, commands: Sequence[Command], limits: LockLimits = DEFAULT_LOCK
    ) -> Decision | None:
        """Every attempt is granted; None if nothing was written."""
        attempts = self.attempts_in(sku_id, commands)
        if attempts is None:
            return None
        given = _parameters(sku_id, attempts, database.known_now_ms(), limits.wait_ms)
        try:
            return await database.write(lambda c: self._execute(c, sku_id, attempts, given), autocommit=True)
        except IntegrityError as exc:
            if getattr(exc.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise
            # Another process has just used one of the keys. Nothing was written.
            self._skipped.add(sku_id)
            return None

    def attempts_in(self, sku_id: str, commands: Sequence[Command]) -> list[Reserve] | None:
        """The attempts of a batch, if the single statement is worthwhile for them."""
        attempts = [c for c in commands if isinstance(c, Reserve) and not c.settle]
        keys = [(c.owner_id, c.key) for c in attempts if c.key is not None]
        fits = 0 < len(attempts) == len(commands) and len(set(keys)) == len(keys)
        return attempts if fits and not self._skipped.skip(sku_id) else None

    def _execute(
        self, connection: Connection, sku_id: str, attempts: Sequence[Reserve], given: Mapping[str, object]
    ) -> Decision | None:
        row = next(iter(self._statement.all(connection, given)), None)
        if row is None or not row.is_done:
            self._skipped.add(sku_id)
            return None
        decision = decide(State(sku_id, pool_from_row(row)), attempts, row.at)
        if not all(verdict.outcome is Outcome.RESERVED for verdict in decision.verdicts):
            raise OutcomeUnknown("more was written than the rulebook grants")
        return decision


def _parameters(sku_id: str, attempts: Sequence[Reserve], now: int | None, wait_ms: int) -> Mapping[str, object]:
    rows = (
        (number, c.reservation_id, c.owner_id, c.key, None if c.key is None else c.fingerprint, c.quantity, c.ttl_ms)
        for number, c in enumerate(attempts)
    )
    return {
        "of_sku": sku_id,
        "rows": encode_rows(rows),
        "now": now,
        "units": sum([c.quantity for c in attempts]),
        "most": max(c.quantity for c in attempts),
        "least_tier": min(_LARGEST, *(c.tier for c in attempts)),
        "wait_ms": str(wait_ms),
        "owners_differ": len({c.owner_id for c in attempts}) == len(attempts),
    }


def _statement() -> Select[Any]:
    given = select(rows_parameter("postgresql", _GIVEN)).cte("given")
    pool = _pool_under_lock(given)
    granted = select(given).join_from(given, pool, pool.c.is_done).cte("granted")
    return (
        select(pool)
        .add_cte(_inserted_reservations(granted, pool))
        .add_cte(_inserted_events(granted, pool))
        .add_cte(_inserted_keys(granted, pool))
        .add_cte(_counted(granted, pool))
    )


def _pool_under_lock(given: CTE) -> CTE:
    """The lock is taken in a subquery, because only expressions outside of it are evaluated after the lock is granted.
    The time is in another one that the planner may not inline (OFFSET 0), so that it is the same wherever it is
    used."""
    is_limited = waiting_for_lock(bindparam("wait_ms", type_=String))
    found = select(pools, _VERSION.label("version")).where(pools.c.sku_id == _sku_id, is_limited)
    locked = found.with_for_update().subquery("locked")
    now = func.coalesce(bindparam("now", type_=BigInteger), POSTGRES_NOW_MS)
    decided_at = locked.c.decided_at
    is_ahead = and_(decided_at > now, decided_at <= now + CLOCK_SKEW_MS)
    timed = (
        select(locked, case((is_ahead, decided_at), else_=now).label("at"))  # As `pool_time` has it.
        .offset(literal_column("0"))
        .subquery("timed")
    )
    t = timed.c
    counts_owners = or_(t.per_owner_limit.is_not(None), t.hold_budget.is_not(None))
    is_done = and_(
        t.ready,
        not_(t.paused),
        or_(t.opens_at.is_(None), t.opens_at <= t.at),
        or_(t.ends_at.is_(None), t.ends_at > t.at),
        or_(t.required_tier.is_(None), t.required_tier <= _least_tier),
        units_free(timed) >= _units,
        not_(_any_key_known(given)),
        case(
            (not_(counts_owners), true()),
            else_=and_(
                is_as_seen(t.version),
                _owners_differ,
                or_(t.per_owner_limit.is_(None), t.per_owner_limit >= _most),
                or_(t.hold_budget.is_(None), t.hold_budget > literal_column("0")),
                not_(_any_owner_known(given)),
            ),
        ),
    )
    return select(timed, counts_owners.label("counts_owners"), is_done.label("is_done")).cte("pool")


def is_as_seen(version: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the locked row is the version in this statement's snapshot."""
    seen = select(_VERSION).select_from(pools).where(pools.c.sku_id == _sku_id)
    return version == seen.scalar_subquery()


def units_free(pool: Subquery) -> ColumnElement[int]:
    free: ColumnElement[int] = pool.c.total - pool.c.held - pool.c.sold
    return free


def _any_key_known(given: CTE) -> ColumnElement[bool]:
    i = idempotency.c
    known = (
        select(literal_column("1"))
        .where(i.sku_id == _sku_id, i.owner_id == given.c.owner_id, i.key == given.c.key)
        .offset(literal_column("0"))
        .lateral("known")
    )
    return exists(select(literal_column("1")).select_from(given.join(known, true())).where(given.c.key.is_not(None)))


def _any_owner_known(given: CTE) -> ColumnElement[bool]:
    """Uses the index of owners: the condition on the pool must not match an index (see `stock/batch.py`)."""
    r = reservations.c
    theirs = (
        select(literal_column("1"))
        .where(r.owner_id == given.c.owner_id, r.sku_id.concat(literal_column("''")) == _sku_id, r.counted)
        .offset(literal_column("0"))
        .lateral("theirs")
    )
    return exists(select(literal_column("1")).select_from(given.join(theirs, true())))


def _inserted_reservations(granted: CTE, pool: CTE) -> CTE:
    g, at = granted.c, pool.c.at
    rows = select(
        g.reservation_id, _sku_id, g.owner_id, g.quantity, literal_column(f"'{Status.ACTIVE}'"), at, at + g.ttl_ms,
        pool.c.counts_owners, literal_column("0"),
    ).join_from(granted, pool, true())  # fmt: skip
    names = [c.name for c in reservations.c if c is not reservations.c.confirmed_at]
    return insert(reservations).from_select(names, rows).cte("made")


def _inserted_events(granted: CTE, pool: CTE) -> CTE:
    g, at = granted.c, pool.c.at
    names = ["sku_id", "reservation_id", "type", "at", "quantity", "expires_at", "facts"]
    said = [part for name in ("owner_id", "key", "fingerprint") for part in (literal_column(f"'{name}'"), g[name])]
    facts = cast(func.json_strip_nulls(func.json_build_object(*said)), Text)
    rows = (
        select(_sku_id, g.reservation_id, literal_column("'reservation.created'"), at, g.quantity, at + g.ttl_ms, facts)
        .join_from(granted, pool, true())
        .order_by(g.number)
    )
    return insert(events).from_select(names, rows).cte("told")


def _inserted_keys(granted: CTE, pool: CTE) -> CTE:
    g, at = granted.c, pool.c.at
    rows = (
        select(_sku_id, g.owner_id, g.key, g.fingerprint, g.reservation_id, g.quantity, at, at + g.ttl_ms)
        .join_from(granted, pool, true())
        .where(g.key.is_not(None))
    )
    return insert(idempotency).from_select([c.name for c in idempotency.c], rows).cte("kept")


def _counted(granted: CTE, pool: CTE) -> CTE:
    """Every column of the constraints comes from the locked row: PostgreSQL first computes the update from the row as
    of the start of the statement, and checks the constraints against that result too."""
    count = select(func.count()).select_from(granted).scalar_subquery()
    now = {
        "total": pool.c.total,
        "held": pool.c.held + _units,
        "sold": pool.c.sold,
        "active_reservations": pool.c.active_reservations + count,
        "decided_at": pool.c.at,
    }
    values = {name: select(value).scalar_subquery() for name, value in now.items()}
    return update(pools).where(pools.c.sku_id == _sku_id, exists().select_from(granted)).values(values).cte("counted")
