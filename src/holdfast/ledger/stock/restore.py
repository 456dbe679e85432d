"""Brings reservations back that a ledger lost, from what a server remembers of them.

Each is written under the lock of its pool and only while there are units for it: stock is never sold twice to bring
back a hold. A server that had not noticed the loss may have served the buyer again since. So nothing comes back above
the limit per buyer, nor beside another reservation that was made with the same key: one request buys once. What follows
for a sale follows here too: a reservation that is being paid for gets its settlement, which finds the charge under the
same key.
"""

from collections.abc import Sequence

from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import LIVE
from holdfast.domain.stock.state import Changes, Event, Remembered
from holdfast.ledger.engine.clock import Clock
from holdfast.ledger.mark.mark import Acknowledged, lacking
from holdfast.ledger.stock.batch import BatchQueries, LockedPool
from holdfast.ledger.stock.journal import find_reservations

_HELD = (Status.ACTIVE, Status.SETTLING)


def restore(
    connection: Connection, queries: BatchQueries, clock: Clock, sku_id: str, lost: Sequence[Acknowledged]
) -> list[str]:
    """Restore what the ledger still lacks of these reservations of one pool; returns the ids of those restored."""
    locked = queries.lock(connection, sku_id, ())
    pool, changes = locked.pool, Changes()
    if pool is None:
        return []
    now = locked.now(connection, clock)
    still = lacking(connection, lost)
    stored = find_reservations(connection, sku_id, [each.reservation_id for each in still])
    by_key = {(each.reservation.owner_id, each.key) for each in still if each.key is not None}
    keys = set(queries.remembered(connection, sku_id, by_key))
    units = queries.live_units(connection, sku_id, [each.reservation.owner_id for each in still])
    for each in still:
        wanted, before = _as_of(each.reservation, now), stored.get(each.reservation_id)
        after = _counted(pool, before, wanted)
        if after is None or (before is None and _was_served_again(locked, wanted, each.key, keys, units)):
            continue
        pool = after
        (changes.created if before is None else changes.moved).append(wanted)
        changes.events += _events(before, wanted, now)
        if before is None and wanted.status in LIVE:
            units[wanted.owner_id] = units.get(wanted.owner_id, 0) + wanted.quantity
        if before is None and each.key is not None and (wanted.owner_id, each.key) not in keys:
            keys.add((wanted.owner_id, each.key))
            changes.remembered.append(Remembered(wanted.owner_id, each.key, each.fingerprint, wanted))
    if changes.events:
        changes.pool = pool
        queries.store(connection, locked, changes, now)
    return [r.reservation_id for r in (*changes.created, *changes.moved)]


def _was_served_again(
    locked: LockedPool, wanted: Reservation, key: str | None, keys: set[tuple[str, str]], units: dict[str, int]
) -> bool:
    """Whether its owner would have more than they may: more units than the limit, or two reservations for one key."""
    if wanted.status not in LIVE:
        return False
    if key is not None and (wanted.owner_id, key) in keys:
        return True
    limit = None if locked.pool is None else locked.pool.rules.per_owner_limit
    if limit is None or locked.may_exceed_limit(wanted):
        return False
    return units.get(wanted.owner_id, 0) + wanted.quantity > limit


def _as_of(reservation: Reservation, now: int) -> Reservation:
    """The ledger says when it was confirmed by the time of the event."""
    return replace(reservation, confirmed_at=now if reservation.status is Status.CONFIRMED else None)


def _counted(pool: Pool, before: Reservation | None, after: Reservation) -> Pool | None:
    """The pool with this reservation; None if there are not enough free units."""
    was_held = before.quantity if before is not None and before.status in _HELD else 0
    held = after.quantity if after.status in _HELD else 0
    sold = after.quantity if after.status is Status.CONFIRMED else 0
    if held + sold - was_held > pool.total - pool.held - pool.sold:
        return None
    was_active = before is not None and before.status is Status.ACTIVE
    return replace(
        pool,
        held=pool.held + held - was_held,
        sold=pool.sold + sold,
        active_reservations=pool.active_reservations + (after.status is Status.ACTIVE) - was_active,
    )


def _events(before: Reservation | None, after: Reservation, now: int) -> list[Event]:
    created = Event("reservation.created", now, after.reservation_id, after.quantity, after.expires_at)
    moved = Event(f"reservation.{after.status}", now, after.reservation_id, after.quantity, after.expires_at)
    return ([created] if before is None else []) + ([] if after.status is Status.ACTIVE else [moved])
