"""Restores reservations that a ledger lost, from a server's memory of them.

Each is written under the lock of its pool and only if there are units for it: stock is never sold twice to restore a
hold. A server that had not noticed the loss may have served the buyer again since. So no reservation is restored that
would exceed the limit per buyer, or that would duplicate another one with the same key: one request buys once. The
effects on a sale follow too: a reservation that is being paid for gets its settlement, which finds the charge under the
same key. With a gate outside the ledger, units that are claimed as sold are not free either, and a restored sale
fulfils its claim.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import LIVE
from holdfast.domain.stock.state import Changes, Event, Remembered
from holdfast.ledger.engine.clock import Clock
from holdfast.ledger.mark.mark import Acknowledged, lacking
from holdfast.ledger.stock.batch import BatchQueries, LockedPool
from holdfast.ledger.stock.journal import claimed_units, find_reservations, forget_claims

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
    claims = _claims(connection, sku_id)
    units = queries.live_units(connection, sku_id, [each.reservation.owner_id for each in still])
    for each in still:
        wanted, before = _as_of(each.reservation, now), stored.get(each.reservation_id)
        after = _counted(pool, before, wanted, {id_: c for id_, c in claims.items() if id_ != wanted.reservation_id})
        if before is not None and wanted.reservation_id in claims and wanted.status not in LIVE:
            continue  # It is sold.
        if after is None or (before is None and _was_served_again(locked, wanted, each.key, keys, units)):
            continue
        pool = after
        _settle(claims, wanted)
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
        forget_claims(connection, changes)
    return [r.reservation_id for r in (*changes.created, *changes.moved)]


class _Claim(Struct):
    quantity: int
    # Whether the pool counts its units as held.
    is_held: bool


def _claims(connection: Connection, sku_id: str) -> dict[str, _Claim]:
    units = claimed_units(connection, sku_id)
    stored = find_reservations(connection, sku_id, list(units)) if units else {}
    held = {id_ for id_, reservation in stored.items() if reservation.status in _HELD}
    return {id_: _Claim(quantity, id_ in held) for id_, quantity in units.items()}


def _settle(claims: dict[str, _Claim], restored: Reservation) -> None:
    claim = claims.get(restored.reservation_id)
    if restored.status is Status.CONFIRMED:
        claims.pop(restored.reservation_id, None)
    elif claim is not None:
        claim.is_held = restored.status in _HELD


def _was_served_again(
    locked: LockedPool, wanted: Reservation, key: str | None, keys: set[tuple[str, str]], units: dict[str, int]
) -> bool:
    """Whether the restored reservation would give its owner too much: units above the limit, or a key used twice."""
    if wanted.status not in LIVE:
        return False
    if key is not None and (wanted.owner_id, key) in keys:
        return True
    limit = None if locked.pool is None else locked.pool.rules.per_owner_limit
    if limit is None or locked.may_exceed_limit(wanted):
        return False
    return units.get(wanted.owner_id, 0) + wanted.quantity > limit


def _as_of(reservation: Reservation, now: int) -> Reservation:
    """The ledger stores the time of confirmation as the time of the event."""
    return replace(reservation, confirmed_at=now if reservation.status is Status.CONFIRMED else None)


def _counted(pool: Pool, before: Reservation | None, after: Reservation, others: Mapping[str, _Claim]) -> Pool | None:
    """The pool with this reservation; None if there are not enough units. `others` are the claims of other sales."""
    was_held = before.quantity if before is not None and before.status in _HELD else 0
    held = after.quantity if after.status in _HELD else 0
    sold = after.quantity if after.status is Status.CONFIRMED else 0
    unheld = sum(claim.quantity for claim in others.values() if not claim.is_held)
    if held + sold - was_held > max(pool.total - pool.held - pool.sold - unheld, 0):
        return None
    if sold and pool.sold + sold + sum(claim.quantity for claim in others.values()) > pool.total:
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
