"""Journal entries that the ledger refuses, in whole or in part. They are parked so that later entries can be stored.

The model. A gate that lost a record may repeat an earlier grant: a second reservation under one idempotency key, or one
ID twice. The ledger refuses such an entry at every retry. So the acceptable part of the entry is stored, the rest is
parked for an operator, and the pool is rebuilt, because from then on gate and ledger differ. Both reservations of a key
were acknowledged, so both are kept; the key stays with the first.

After a parked entry, the gate's counts include what the ledger left out. So counts are computed from what is stored,
and a reservation that the ledger does not know is created as the entry describes it. This ends with the epoch: the
rebuild begins a new one.

A gate that came back with older data reuses the numbers of its journal. What it has granted since then was acknowledged
too, so these entries are not mistaken for the stored ones with the same numbers. The rebuild adopts their reservations
as far as the ledger has units for them. The others never existed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, exists, insert, select, tuple_
from sqlalchemy.exc import DataError, IntegrityError
from uuid_utils import uuid7

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.state import Changes, Event
from holdfast.ledger.stock.batch import BatchQueries, LockedPool, Position
from holdfast.ledger.stock.journal import (
    HELD,
    Entry,
    Journal,
    OverLimit,
    SoldBefore,
    claimed_units,
    counts_after,
    event_of,
    forget_claims,
    over_the_limit,
    returned_among,
    returned_in,
    sold_in,
    unclaimed_sales,
)
from holdfast.ledger.stock.transfers import expected_transfers
from holdfast.ledger.tables.stock import idempotency, parked_entries, reservations

REASON = "journal_poisoned"
_REFUSED = (IntegrityError, DataError)
_CONTRADICTED = (*_REFUSED, OverLimit, SoldBefore)


class _Part(Struct):
    """The stored part of an entry, and what an operator must know about the rest."""

    changes: Changes
    history: list[dict[str, Any]]


class _Impossible(Exception):
    """More units would be held and sold than exist."""


class ParkingJournal:
    def __init__(self, queries: BatchQueries) -> None:
        self._queries = queries
        self._journal = Journal(queries)

    def store(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> Position | None:
        """Store the next entries, in order. Returns the new position."""
        try:
            with connection.begin_nested():
                reached = self._journal.store(connection, sku_id, entries)
        except _CONTRADICTED:
            return self._store_each(connection, sku_id, entries)
        if reached and entries and reached.seq < entries[-1].seq and _is_poisoned(connection, sku_id, reached.epoch):
            return self._store_each(connection, sku_id, entries)
        return reached

    def park_reused_numbers(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> bool:
        """Whether these entries, whose numbers are already stored, grant what the ledger does not have. If so, one of
        them is parked, which causes a rebuild of the pool."""
        reused = next((entry for entry in entries if _unheard(connection, entry)), None)
        if reused is None:
            return False
        if not _is_poisoned(connection, sku_id, reused.epoch):
            note = _note(reused, "number_used_twice", "the gate came back with older data, and has granted since")
            _park(connection, sku_id, reused, [note])
        return True

    def adopt(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> None:
        """Store the reservations of entries that do not follow the ledger's state, if it has units for them."""
        adopted: set[str] = set()
        for entry in entries:
            unheard = _unheard(connection, entry)
            if not unheard and not adopted:
                continue
            locked = self._queries.lock(connection, sku_id, ())
            adopted |= _fits(locked.pool, (r for r in entry.changes.created if r.reservation_id in unheard))
            own = _about(entry, adopted, locked)
            if own.changes.events:
                self._store_parts(connection, locked, own, None)

    def _store_each(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> Position | None:
        reached: Position | None = None
        for entry in entries:
            reached = self._store_one(connection, sku_id, entry)
        return reached

    def _store_one(self, connection: Connection, sku_id: str, entry: Entry) -> Position | None:
        error: str | None = None
        try:
            with connection.begin_nested():
                reached = self._journal.store(connection, sku_id, [entry])
        except _CONTRADICTED as exc:
            error = str(getattr(exc, "orig", exc))
        else:
            is_left = reached is not None and (entry.epoch, entry.seq) == (reached.epoch, reached.seq + 1)
            if not is_left or not _is_poisoned(connection, sku_id, entry.epoch):
                return reached
        locked = self._queries.lock(connection, sku_id, ())
        expected = expected_transfers(connection, sku_id, [entry.changes])
        if entry.after != locked.decided_at or not expected.allows(entry.changes):
            return locked.position
        self._store_parts(connection, locked, entry, error)
        return self._journal.advance(connection, locked.sku_id, Position(entry.epoch, entry.seq))

    def _store_parts(self, connection: Connection, locked: LockedPool, entry: Entry, error: str | None) -> None:
        assert locked.pool is not None
        part = _storable(connection, locked.sku_id, _without_excess(connection, locked, entry))
        part = _fitting(connection, locked.pool, entry, part)
        try:
            with connection.begin_nested():
                self._write(connection, locked, entry, part.changes)
        except (*_REFUSED, _Impossible) as exc:
            error = str(getattr(exc, "orig", exc))
            part = _Part(_stock_only(entry.changes), [_note(entry, "nothing_stored", error)])
            self._write(connection, locked, entry, part.changes)
        if error is not None or part.history:
            _park(connection, locked.sku_id, entry, part.history or [_note(entry, "refused", str(error))])

    def _write(self, connection: Connection, locked: LockedPool, entry: Entry, changes: Changes) -> None:
        assert locked.pool is not None
        assert entry.changes.pool is not None
        rules = entry.changes.pool.rules
        counted = self._counted(connection, locked.pool, changes)
        changes.pool = replace(counted, rules=rules, ready=entry.changes.pool.ready)
        locked.counts_owners = rules.count_owners
        self._queries.store(connection, locked, changes, entry.now)
        forget_claims(connection, changes)

    def _counted(self, connection: Connection, pool: Pool, changes: Changes) -> Pool:
        """The pool after these changes, based on the ledger's rows."""
        total, held, sold = counts_after(pool, changes)
        sold_here = sold_in(changes)
        claimed = claimed_units(connection, pool.sku_id)
        forgotten = sum(units for id_, units in claimed.items() if id_ not in sold_here)
        if min(held, sold, total - held - sold, total - sold - forgotten) < 0:
            raise _Impossible(f"{held} held and {sold} sold of {total}")
        was_active = _active_among(connection, [r.reservation_id for r in changes.moved])
        is_active = sum(r.status is Status.ACTIVE for r in (*changes.created, *changes.moved))
        active = pool.active_reservations - was_active + is_active
        return replace(pool, total=total, held=held, sold=sold, active_reservations=active)


def _unheard(connection: Connection, entry: Entry) -> set[str]:
    created = [r.reservation_id for r in entry.changes.created]
    return set(created) - _homes(connection, created).keys() if created else set()


def _fits(pool: Pool | None, granted: Iterable[Reservation]) -> set[str]:
    """The longest prefix of these reservations for which there are units."""
    free = 0 if pool is None else pool.available
    fitting: set[str] = set()
    for r in granted:
        if r.quantity <= free:
            fitting.add(r.reservation_id)
            free -= r.quantity
    return fitting


def _about(entry: Entry, wanted: set[str], locked: LockedPool) -> Entry:
    """What an entry says about these reservations. Stock and rules are the ledger's."""
    changes = entry.changes
    own = Changes(
        pool=locked.pool,
        created=[r for r in changes.created if r.reservation_id in wanted],
        moved=[r for r in changes.moved if r.reservation_id in wanted],
        remembered=[first for first in changes.remembered if first.reservation.reservation_id in wanted],
        events=[event for event in changes.events if event.reservation_id in wanted],
    )
    return replace(entry, now=max(entry.now, locked.decided_at), changes=own)


def _without_excess(connection: Connection, locked: LockedPool, entry: Entry) -> Entry:
    """Converts sales that put their owners above the limit into returns."""
    over = over_the_limit(connection, locked, unclaimed_sales(connection, entry.changes))
    if not over:
        return entry
    changes = entry.changes

    def returned(found: Sequence[Reservation]) -> list[Reservation]:
        return [
            replace(r, status=Status.CANCELLED, confirmed_at=None) if r.reservation_id in over else r for r in found
        ]

    events = [
        replace(e, type="reservation.cancelled") if e.reservation_id in over and e.type.endswith(".confirmed") else e
        for e in changes.events
    ]
    kept = replace(changes, created=returned(changes.created), moved=returned(changes.moved), events=events)
    return replace(entry, changes=kept)


def _storable(connection: Connection, sku_id: str, entry: Entry) -> _Part:
    """The entry without the parts that contradict the ledger."""
    changes = entry.changes
    named = [r.reservation_id for r in (*changes.created, *changes.moved)]
    homes = _homes(connection, named)
    repeated = {r.reservation_id for r in changes.created if r.reservation_id in homes}
    foreign = {id_ for id_ in named if homes.get(id_, sku_id) != sku_id}
    sold = returned_in(changes) & claimed_units(connection, sku_id).keys()
    returned = returned_among(connection, [r.reservation_id for r in changes.moved]) - foreign
    left_out = repeated | foreign | sold | returned
    moved = [r for r in changes.moved if r.reservation_id not in left_out]
    unheard = [r for r in moved if r.reservation_id not in homes]
    firsts = _first_reservations(connection, sku_id, changes)
    kept = Changes(
        created=[*(r for r in changes.created if r.reservation_id not in left_out), *unheard],
        moved=[r for r in moved if r.reservation_id in homes],
        remembered=[
            first
            for first in changes.remembered
            if (first.owner_id, first.key) not in firsts and first.reservation.reservation_id not in left_out
        ],
        events=[*_created(unheard, entry.now), *(e for e in changes.events if e.reservation_id not in left_out)],
        given=changes.given,
        taken=changes.taken,
    )
    twice = sorted(repeated | foreign)
    notes = [_note(entry, "id_used_twice", f"reservation {id_} is in the ledger already") for id_ in twice]
    notes += [_note(entry, "sold_before", f"reservation {id_} was sold, and is not returned") for id_ in sorted(sold)]
    notes += [_note(entry, "returned_before", f"reservation {id_} has ended before") for id_ in sorted(returned)]
    for second in changes.remembered:
        first = firsts.get((second.owner_id, second.key))
        if first is not None:
            both = f"reservations {first} and {second.reservation.reservation_id} of {second.owner_id!r}"
            notes.append(_note(entry, "key_used_twice", f"{both} have the same key {second.key!r}"))
    return _Part(kept, notes)


def _fitting(connection: Connection, pool: Pool, entry: Entry, part: _Part) -> _Part:
    """If a sale that the gate has lost was left out, its units were granted again: the newest of these grants end,
    those being paid for last."""
    changes = part.changes
    total, held, sold = counts_after(pool, changes)
    excess = held + sold - total
    if excess <= 0:
        return part
    claimed = claimed_units(connection, pool.sku_id)
    granted = [r for r in changes.created if r.status in HELD and r.reservation_id not in claimed]
    granted.sort(key=lambda r: (r.status is Status.ACTIVE, r.reservation_id), reverse=True)
    ended: dict[str, Reservation] = {}
    for r in granted:
        if excess <= 0:
            break
        ended[r.reservation_id] = replace(r, status=Status.CANCELLED if r.status is Status.ACTIVE else Status.FAILED)
        excess -= r.quantity
    created = [ended.get(r.reservation_id, r) for r in changes.created]
    # Returns are applied first, and each hold that is taken back ends at once: there is no room for all of them
    # together.
    returned = {r.reservation_id for r in changes.moved} & returned_in(changes)
    freed = [event for event in changes.events if event.reservation_id in returned]
    others = [event for event in changes.events if event.reservation_id not in returned | ended.keys()]
    told = [event for r in ended.values() for event in (*_events_of(changes, r), event_of(r, entry.now))]
    events = freed + told + others
    notes = [_note(entry, "taken_back", f"reservation {id_} has units that were sold before") for id_ in ended]
    return _Part(replace(changes, created=created, events=events), part.history + notes)


def _events_of(changes: Changes, reservation: Reservation) -> list[Event]:
    return [event for event in changes.events if event.reservation_id == reservation.reservation_id]


def _stock_only(changes: Changes) -> Changes:
    """What an entry says about the pool as a whole; totals and transfers must not be lost with its reservations."""
    events = [event for event in changes.events if event.reservation_id is None]
    return Changes(events=events, given=changes.given, taken=changes.taken)


def _created(unheard: Sequence[Reservation], now: int) -> Iterator[Event]:
    for r in unheard:
        yield Event("reservation.created", now, r.reservation_id, r.quantity, r.expires_at)


def _note(entry: Entry, step: str, error: str) -> dict[str, Any]:
    return {"at": entry.now, "step": step, "error": error}


def _park(connection: Connection, sku_id: str, entry: Entry, history: list[dict[str, Any]]) -> None:
    connection.execute(
        insert(parked_entries).values(
            entry_id=uuid7().hex,
            sku_id=sku_id,
            epoch=entry.epoch,
            seq=entry.seq,
            reason=REASON,
            created_at=entry.now,
            history=msgspec.json.encode(history).decode(),
            entry=msgspec.json.encode(entry).decode(),
        )
    )


def _is_poisoned(connection: Connection, sku_id: str, epoch: int) -> bool:
    is_here = exists().where(parked_entries.c.sku_id == sku_id, parked_entries.c.epoch == epoch)
    return bool(connection.execute(select(is_here)).scalar_one())


def _homes(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """The pools of the reservations that the ledger has."""
    query = select(reservations.c.reservation_id, reservations.c.sku_id)
    rows = connection.execute(query.where(reservations.c.reservation_id.in_(ids)))
    return {row.reservation_id: row.sku_id for row in rows}


def _first_reservations(connection: Connection, sku_id: str, changes: Changes) -> dict[tuple[str, str], str]:
    keys = [(first.owner_id, first.key) for first in changes.remembered]
    columns = (idempotency.c.owner_id, idempotency.c.key)
    query = select(*columns, idempotency.c.reservation_id).where(idempotency.c.sku_id == sku_id)
    rows = connection.execute(query.where(tuple_(*columns).in_(keys)))
    return {(row.owner_id, row.key): row.reservation_id for row in rows}


def _active_among(connection: Connection, ids: Sequence[str]) -> int:
    query = select(reservations.c.reservation_id).where(reservations.c.reservation_id.in_(ids))
    return len(connection.execute(query.where(reservations.c.status == Status.ACTIVE)).all())
