"""Brings the database to the tables this version needs. Safe to run from many processes at once, and beside servers.

On PostgreSQL, changing a table waits for the transactions that use it, and all later ones queue behind the change. So a
migration waits for a lock only briefly, and then starts again. It gives way before PostgreSQL would treat it as part of
a deadlock and cancel the other transaction.
for one half of a deadlock and end the other.
"""

import asyncio
from weakref import WeakKeyDictionary

import structlog

from holdfast.errors import Cause, Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.revision import current_revision, newest_revision, require_usable

log = structlog.get_logger()

# An upgrade may rewrite a large table, or wait for a long transaction to end.
_TIMEOUT_S = 600.0
_PAUSE_S = 1.0
# Alembic has one context per process; several cells are upgraded one after the other.
_one_at_a_time: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def migrate(database: Database) -> tuple[str | None, str]:
    """Upgrade, and return the revision before and after. A newer database that this version may use is left
    unchanged."""
    newest = newest_revision()
    # Usually there is nothing to do, and finding that out must not wait for the lock of a busy server.
    current = await database.read(current_revision)
    if current is not None and current > newest:
        current = await database.read(require_usable)
        log.warning("schema_is_newer", revision=current, supported=newest, to_do="upgrade this process too")
        return current, current
    if current != newest:
        current = await _upgrade(database)
    return current, newest


async def _upgrade(database: Database) -> str | None:
    from holdfast.ledger.upgrade import upgrade  # noqa: PLC0415 - imports Alembic, which few starts need

    lock = _one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with asyncio.timeout(_TIMEOUT_S), lock:
        while True:
            try:
                return await database.write(upgrade, timeout_s=_TIMEOUT_S)
            except Unavailable as exc:
                if exc.cause is not Cause.LOCK_TIMEOUT:
                    raise
                log.warning("migration_waits_for_lock", error=str(exc))
            await asyncio.sleep(_PAUSE_S)
