"""A crowd reserves on PostgreSQL: one statement that locks the pool, sees that there is enough, and grants it to all.

The model. A batch of a crowd is attempts and nothing else, of people who have nothing here yet, at a pool that has
enough for all of them. Then there is nothing to decide between reading and writing, so both are one statement, which
commits by itself: one round trip, where a transaction takes four; and nobody who waits for the lock waits for our event
loop. What everyone is told is still said by the rulebook, from what the statement read.

The invariants. The statement writes only if the rulebook would grant every attempt in full: the pool, as it is under
the lock, is open to all of them and has enough units free, and no key of theirs was used. Where the rules count what
owners have, each owner comes once, has nothing here, and asks for no more than the limit. Keys and what owners have are
seen as they were when the statement began; so they count only if the pool has not changed since (who reserves writes
its row), and where only keys matter, the table itself refuses a second one. In every other case nothing is written, and
the batch goes the long way.

When it fails. An attempt in vain has waited for the lock, and waits again. So after one the next batches of that pool
go the long way. PostgreSQL gives up waiting for the lock before we give up waiting for PostgreSQL: a statement that
nobody waits for any more would still grant, to people who have been told that nobody knows.
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
    and_,
    bindparam,
    case,
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

from holdfast.domain.command import Command, Reserve, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import Status
from holdfast.domain.rulebook import decide
from holdfast.domain.state import State
from holdfast.errors import OutcomeUnknown
from holdfast.ledger.batch import pool_from_row
from holdfast.ledger.clock import POSTGRES_NOW_MS
from holdfast.ledger.rows import encode_rows, rows_parameter
from holdfast.ledger.tables import events, idempotency, pools, reservations

# Of one pool. Where some of a crowd come a second time, most batches have one of them; then this costs one wait in four
# batches, and where none do, it wins most of the round trips.
LONG_WAY_AFTER = 3
# A little less than TRANSACTION_TIMEOUT_S.
LOCK_TIMEOUT_MS = 4_000
_LARGEST = 2**63 - 1
# Pools that go the long way. Beyond that, all are found out anew.
POOLS_MAX = 10_000

_GIVEN: list[Column[Any]] = [
    Column("number", BigInteger),
    *(Column(name, String) for name in ("reservation_id", "owner_id", "key", "fingerprint")),
    *(Column(name, BigInteger) for name in ("quantity", "ttl_ms")),
]
_VERSION: ColumnElement[str] = literal_column("pools.ctid")
_sku_id = bindparam("of_sku", type_=String)
_units, _most = bindparam("units", type_=BigInteger), bindparam("most", type_=BigInteger)
_least_tier, _owners_differ = bindparam("least_tier", type_=BigInteger), bindparam("owners_differ", type_=Boolean)


class GrantAtOnce:
    def __init__(self) -> None:
        self._statement = _statement()
        self._long_way_for: dict[str, int] = {}

    def attempts_in(self, sku_id: str, commands: Sequence[Command]) -> list[Reserve] | None:
        """The batch, if it is worth a try."""
        left = self._long_way_for.get(sku_id, 0)
        if left:
            self._long_way_for[sku_id] = left - 1
            return None
        attempts = [c for c in commands if isinstance(c, Reserve) and not c.settle]
        keys = [(c.owner_id, c.key) for c in attempts if c.key is not None]
        fits = 0 < len(attempts) == len(commands) and len(set(keys)) == len(keys)
        return attempts if fits else None

    def grant(
        self, sku_id: str, attempts: Sequence[Reserve], now: int | None, connection: Connection
    ) -> list[Verdict] | None:
        """None if nothing was written."""
        row = connection.execute(self._statement, _parameters(sku_id, attempts, now)).one_or_none()
        if row is None or not row.is_done:
            self.go_the_long_way(sku_id)
            return None
        verdicts = decide(State(sku_id, pool_from_row(row)), attempts, row.at).verdicts
        if not all(verdict.outcome is Outcome.RESERVED for verdict in verdicts):
            raise OutcomeUnknown("more was written than the rulebook grants")
        return verdicts

    def go_the_long_way(self, sku_id: str) -> None:
        if len(self._long_way_for) >= POOLS_MAX:
            self._long_way_for.clear()
        self._long_way_for[sku_id] = LONG_WAY_AFTER


def _parameters(sku_id: str, attempts: Sequence[Reserve], now: int | None) -> Mapping[str, object]:
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
        "lock_timeout": str(LOCK_TIMEOUT_MS),
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
    """The lock is taken in a subquery, because only what is outside of it is computed when the lock is there; and the
    time in another that may not be dissolved (OFFSET 0), so that it is the same wherever it is used."""
    patience = func.set_config("lock_timeout", bindparam("lock_timeout", type_=String), true())
    found = select(pools, _VERSION.label("version")).where(pools.c.sku_id == _sku_id, patience.is_not(None))
    locked = found.with_for_update().subquery("locked")
    now = func.coalesce(bindparam("now", type_=BigInteger), POSTGRES_NOW_MS)
    timed = (
        select(locked, func.greatest(now, locked.c.decided_at).label("at"))
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
    """Whether the row that is locked is the one that this statement sees."""
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
    """By the index of owners: for the condition on the pool there must be none (see batch.py)."""
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
        pool.c.counts_owners,
    ).join_from(granted, pool, true())  # fmt: skip
    return insert(reservations).from_select([c.name for c in reservations.c], rows).cte("made")


def _inserted_events(granted: CTE, pool: CTE) -> CTE:
    g, at = granted.c, pool.c.at
    names = ["sku_id", "reservation_id", "type", "at", "quantity", "expires_at"]
    rows = (
        select(_sku_id, g.reservation_id, literal_column("'reservation.created'"), at, g.quantity, at + g.ttl_ms)
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
    """All that the constraints are about comes from what is locked: PostgreSQL begins with the row as it was when the
    statement began, and holds what would become of that one against them, too."""
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
