"""How long PostgreSQL lets our transactions wait: for a lock, and idle between statements while others need its locks.

`idle_in_transaction_session_timeout` ends a session that waits for its client's next statement. A session that has only
parsed the statement so far does not count as idle, so the pool's lock has its own limit where PostgreSQL has one for
transactions (17 and newer). Before 17, a host that freezes at that moment keeps the lock until it is back or its
connection is found dead.
"""

from typing import Any

from msgspec import Struct
from sqlalchemy import BindParameter, ColumnElement, Select, and_, case, func, literal_column, select, true

from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S

# A transaction waits between two of its statements only while our event loop is busy elsewhere.
IDLE_IN_TRANSACTION_MS = 2_000
# Batches of several processes on one pool take turns within tenths of a second.
LOCK_TIMEOUT_MS = 2_000

# In milliseconds. None of them may exceed the time a caller waits.
LIMITS = {
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "statement_timeout": f"{TRANSACTION_TIMEOUT_S * 1000:.0f}",
}


class LockLimits(Struct, frozen=True):
    """How long to wait for a lock, and how long to hold it."""

    wait_ms: int = LOCK_TIMEOUT_MS
    hold_ms: int = round(TRANSACTION_TIMEOUT_S * 1000)


DEFAULT_LOCK = LockLimits()

_TRANSACTION_TIMEOUT: ColumnElement[str] = literal_column("'transaction_timeout'")
# Null before PostgreSQL 17, which would refuse to set it.
_transaction_timeout = func.current_setting(_TRANSACTION_TIMEOUT, true())


def waiting_for_lock(timeout_ms: BindParameter[str]) -> ColumnElement[bool]:
    """An always true condition that limits the wait for a lock, and how long we may be silent while we hold it. It also
    works where the session has no limits of its own. It must be evaluated before the lock is taken."""
    name: ColumnElement[str] = literal_column("'idle_in_transaction_session_timeout'")
    idle = func.current_setting(name)
    at_most = case((idle == literal_column("'0'"), literal_column(f"'{IDLE_IN_TRANSACTION_MS}'")), else_=idle)
    return and_(
        func.set_config(literal_column("'lock_timeout'"), timeout_ms, true()).is_not(None),
        func.set_config(name, at_most, true()).is_not(None),
    )


def holding_lock(timeout_ms: BindParameter[str]) -> ColumnElement[str]:
    """Limits the rest of the transaction, unless it already has a limit. It must be evaluated after the lock is taken,
    because the time starts then."""
    has_none = _transaction_timeout == literal_column("'0'")
    return case((has_none, func.set_config(_TRANSACTION_TIMEOUT, timeout_ms, true())))


def longer_limits(timeout_s: float) -> Select[Any]:
    """Lets one transaction exceed the session's limits."""
    value = f"{timeout_s * 1000:.0f}"
    known = _transaction_timeout.is_not(None)
    return select(
        *[func.set_config(name, value, true()) for name in LIMITS],
        case((known, func.set_config(_TRANSACTION_TIMEOUT, value, true()))),
    )
