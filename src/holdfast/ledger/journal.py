"""The ledger behind a gate in Redis: how far it has read the journal, what it let go, and what to rebuild from.

Everything here happens under the lock of the pool's row. Entries are stored in order, each exactly once: an entry is
taken only if it is the next one of the epoch the ledger is at, was decided on what the ledger has, and counts what its
events tell; so a gate that went back in time, or counts wrongly, cannot write its errors into the ledger. A claim lets
units go before the journal has told of the sale, and only while what is sold and claimed stays within the total: so
whatever Redis believes, the ledger does not oversell. A rebuild begins with a new epoch; from then on no entry and no
claim of the old one is taken.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, case, delete, exists, func, insert, select, update

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.state import Changes, Counters, Event
from holdfast.ledger.batch import BatchQueries, LockedPool, Position, reservation_from_row
from holdfast.ledger.tables import claims, pools, reservations
from holdfast.ledger.transfers import Passage, counters_of, passage_of

HELD = (Status.ACTIVE, Status.SETTLING)


class Entry(Struct, frozen=True):
    """One entry of the journal: a batch that changed something."""

    epoch: int
    seq: int
    now: int
    # When the entry before it was decided. Two histories may give one number to two entries, but not one moment too.
    after: int
    changes: Changes


class NewEpoch(Struct, frozen=True):
    """Where a gate goes on from. What is held, and by whom, is read afterwards (`gate_state.py`)."""

    epoch: int
    decided_at: int
    pool: Pool
    counters: Counters = Counters()


def position(connection: Connection, sku_id: str) -> Position | None:
    return positions(connection, [sku_id]).get(sku_id)


def positions(connection: Connection, sku_ids: Sequence[str] | None = None) -> dict[str, Position]:
    """Of the pools that are decided in Redis."""
    query = select(pools.c.sku_id, pools.c.epoch, pools.c.journal_seq).where(pools.c.epoch > 0)
    if sku_ids is not None:
        query = query.where(pools.c.sku_id.in_(sku_ids))
    return {row.sku_id: Position(row.epoch, row.journal_seq) for row in connection.execute(query)}


def pool_exists(connection: Connection, sku_id: str) -> bool:
    return connection.execute(select(exists().where(pools.c.sku_id == sku_id))).scalar_one()


def find_reservations(connection: Connection, sku_id: str, ids: Sequence[str]) -> dict[str, Reservation]:
    query = select(reservations).where(reservations.c.reservation_id.in_(ids), reservations.c.sku_id == sku_id)
    return {row.reservation_id: reservation_from_row(row) for row in connection.execute(query)}


class Journal:
    """The statements about one journal, under the lock of its pool."""

    def __init__(self, queries: BatchQueries) -> None:
        self._queries = queries

    def store(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> Position | None:
        """Take the entries that are next, in order, and give how far the ledger is now."""
        locked = self._queries.lock(connection, sku_id, ())
        if locked.pool is None:
            return None
        passage = passage_of(connection, sku_id, [entry.changes for entry in entries])
        fresh = list(_next_entries(locked, entries, claimed_units(connection, sku_id), passage))
        if not fresh:
            return locked.position
        changes = fold([entry.changes for entry in fresh])
        assert changes.pool is not None
        locked.counts_owners = changes.pool.rules.count_owners
        self._queries.store(connection, locked, changes, fresh[-1].now)
        _forget_claims(connection, changes)
        return self._advance(connection, sku_id, Position(fresh[-1].epoch, fresh[-1].seq))

    def _advance(self, connection: Connection, sku_id: str, to: Position) -> Position:
        connection.execute(update(pools).where(pools.c.sku_id == sku_id).values(epoch=to.epoch, journal_seq=to.seq))
        return to

    def claim(self, connection: Connection, sku_id: str, epoch: int, wanted: Sequence[Reservation], now: int) -> int:
        """Let the units of these sold reservations go, in order; gives how many of them could be."""
        locked = self._queries.lock(connection, sku_id, ())
        if locked.pool is None or locked.position.epoch != epoch:
            return 0
        ids = [r.reservation_id for r in wanted]
        known, returned = _already_let_go(connection, ids), _returned(connection, ids)
        gone = locked.pool.sold + sum(claimed_units(connection, sku_id).values())
        granted: list[Reservation] = []
        for count, reservation in enumerate(wanted):
            if reservation.reservation_id in known:
                continue
            if reservation.reservation_id in returned or gone + reservation.quantity > locked.pool.total:
                _insert_claims(connection, granted, now)
                return count
            gone += reservation.quantity
            granted.append(reservation)
            known.add(reservation.reservation_id)
        _insert_claims(connection, granted, now)
        return len(wanted)

    def begin_epoch(self, connection: Connection, locked: LockedPool, now: int) -> NewEpoch:
        """A new epoch, the claims of the old one kept. It takes as long however much is held, but for one sum."""
        assert locked.pool is not None
        sku_id = locked.sku_id
        decided_at = max(now, locked.decided_at)
        pool = self._settle_claims(connection, locked, decided_at)
        epoch = self._advance(connection, sku_id, Position(locked.position.epoch + 1, 0)).epoch
        return NewEpoch(epoch, decided_at, pool, counters_of(connection, sku_id))

    def _settle_claims(self, connection: Connection, locked: LockedPool, now: int) -> Pool:
        """What was claimed is sold, whether or not the journal ever told of it.

        If a gate that had forgotten a sale promised the same units to somebody else, that later promise is the one that
        cannot be kept: of the holds, the newest go first, and those that are being paid for last.
        """
        sku_id, pool = locked.sku_id, locked.pool
        assert pool is not None
        sold = _claimed(connection, sku_id)
        ids = [r.reservation_id for r in sold]
        known = find_reservations(connection, sku_id, ids).keys()
        held, active = _held_besides(connection, sku_id, ids)
        sold_units = sum(r.quantity for r in sold)
        taken_back = _take_back(connection, sku_id, ids, sold_units + held + pool.sold - pool.total)
        changes = Changes(
            created=[r for r in sold if r.reservation_id not in known],
            moved=[r for r in sold if r.reservation_id in known] + taken_back,
            events=[_event(r, now) for r in taken_back] + _told(sold, known, now),
        )
        changes.pool = replace(
            pool,
            held=held - sum(r.quantity for r in taken_back),
            sold=pool.sold + sold_units,
            active_reservations=active - sum(r.status is Status.CANCELLED for r in taken_back),
        )
        self._queries.store(connection, locked, changes, now)
        connection.execute(delete(claims).where(claims.c.sku_id == sku_id))
        return changes.pool


def _next_entries(
    locked: LockedPool, entries: Sequence[Entry], claimed: dict[str, int], passage: Passage
) -> Iterable[Entry]:
    at, pool, decided_at = locked.position, locked.pool, locked.decided_at
    for entry in entries:
        if (entry.epoch, entry.seq) != (at.epoch, at.seq + 1):
            continue
        assert pool is not None
        if not (follows(entry, pool, decided_at, claimed) and passage.allows(entry.changes)):
            return
        yield entry
        passage.advance(entry.changes)
        for reservation_id in _sold_in(entry.changes):
            claimed.pop(reservation_id, None)
        at, pool, decided_at = Position(entry.epoch, entry.seq), entry.changes.pool, entry.now


def follows(entry: Entry, pool: Pool, decided_at: int, claimed: Mapping[str, int]) -> bool:
    """Whether an entry with the right number goes on from this pool, as it was decided then.

    A gate that forgot a sale counts without it, and would sell its units again: the claim remembers them.
    """
    said = entry.changes.pool
    assert said is not None
    total, held, sold = _counts_after(pool, entry.changes)
    is_counted = (said.total, said.held, said.sold) == (total, held, sold)
    sold_here = _sold_in(entry.changes)
    forgotten = sum(units for reservation_id, units in claimed.items() if reservation_id not in sold_here)
    is_possible = min(held, sold, total - held - sold, total - sold - forgotten) >= 0
    return entry.after == decided_at and is_counted and is_possible


def _sold_in(changes: Changes) -> set[str]:
    return {r.reservation_id for r in [*changes.created, *changes.moved] if r.status is Status.CONFIRMED}


def _counts_after(pool: Pool, changes: Changes) -> tuple[int, int, int]:
    total, held, sold = pool.total, pool.held, pool.sold
    total += sum(t.units for t in changes.taken) - sum(t.units for t in changes.given)
    for event in changes.events:
        quantity = event.quantity or 0
        match event.type:
            case "pool.provisioned" | "pool.restocked":
                total += quantity
            case "reservation.created":
                held += quantity
            case "reservation.confirmed":
                held, sold = held - quantity, sold + quantity
            case "reservation.failed" | "reservation.cancelled" | "reservation.expired":
                held -= quantity
    return total, held, sold


def fold(batches: Sequence[Changes]) -> Changes:
    """Several batches in a row as one."""
    created: dict[str, Reservation] = {}
    moved: dict[str, Reservation] = {}
    whole = Changes()
    for changes in batches:
        created |= {r.reservation_id: r for r in changes.created}
        for reservation in changes.moved:
            target = created if reservation.reservation_id in created else moved
            target[reservation.reservation_id] = reservation
        whole.pool = changes.pool or whole.pool
        whole.remembered += changes.remembered
        whole.events += changes.events
        whole.given += changes.given
        whole.taken += changes.taken
    whole.created, whole.moved = list(created.values()), list(moved.values())
    return whole


def _forget_claims(connection: Connection, changes: Changes) -> None:
    sold = _sold_in(changes)
    if sold:
        connection.execute(delete(claims).where(claims.c.reservation_id.in_(sold)))


def _already_let_go(connection: Connection, ids: list[str]) -> set[str]:
    claimed = select(claims.c.reservation_id).where(claims.c.reservation_id.in_(ids))
    sold = select(reservations.c.reservation_id).where(
        reservations.c.reservation_id.in_(ids), reservations.c.status == Status.CONFIRMED
    )
    return set(connection.execute(claimed.union(sold)).scalars())


def _returned(connection: Connection, ids: list[str]) -> set[str]:
    """Those whose units went back: only a gate that forgot that can call them sold."""
    ended = reservations.c.status.in_([Status.FAILED, Status.CANCELLED, Status.EXPIRED])
    query = select(reservations.c.reservation_id).where(reservations.c.reservation_id.in_(ids), ended)
    return set(connection.execute(query).scalars())


def claimed_units(connection: Connection, sku_id: str) -> dict[str, int]:
    """What the ledger has let go and no journal has told of yet. Each waits for a moment only, so they are few."""
    rows = connection.execute(select(claims.c.reservation_id, claims.c.quantity).where(claims.c.sku_id == sku_id))
    return {row.reservation_id: row.quantity for row in rows}


def _insert_claims(connection: Connection, granted: Sequence[Reservation], now: int) -> None:
    rows = [
        {
            "reservation_id": r.reservation_id,
            "sku_id": r.sku_id,
            "owner_id": r.owner_id,
            "quantity": r.quantity,
            "created_at": r.created_at,
            "expires_at": r.expires_at,
            "claimed_at": now,
        }
        for r in granted
    ]
    if rows:
        connection.execute(insert(claims), rows)


def _claimed(connection: Connection, sku_id: str) -> list[Reservation]:
    """What was claimed and is not known as sold, as the sold reservations they are."""
    rows = connection.execute(select(claims).where(claims.c.sku_id == sku_id).order_by(claims.c.reservation_id))
    return [
        Reservation(r.reservation_id, r.sku_id, r.owner_id, r.quantity, Status.CONFIRMED, r.created_at, r.expires_at)
        for r in rows
    ]


def _held_besides(connection: Connection, sku_id: str, ids: Collection[str]) -> tuple[int, int]:
    """The units that are held, without these reservations, and how many of the holds are active."""
    units = func.coalesce(func.sum(reservations.c.quantity), 0)
    active = func.count().filter(reservations.c.status == Status.ACTIVE)
    row = connection.execute(select(units, active).where(*_is_held(sku_id, ids))).one()
    return int(row[0]), int(row[1])


def _is_held(sku_id: str, besides: Collection[str]) -> list[ColumnElement[bool]]:
    held = [reservations.c.sku_id == sku_id, reservations.c.status.in_(HELD)]
    return [*held, reservations.c.reservation_id.not_in(besides)] if besides else held


def _take_back(connection: Connection, sku_id: str, besides: Collection[str], units: int) -> list[Reservation]:
    """End holds until so many units are free again."""
    if units <= 0:
        return []
    paid_last = case((reservations.c.status == Status.SETTLING, 1), else_=0)
    query = select(reservations).where(*_is_held(sku_id, besides))
    # Each has one unit or more.
    query = query.order_by(paid_last, reservations.c.reservation_id.desc()).limit(units)
    ended: list[Reservation] = []
    for row in connection.execute(query):
        if units <= 0:
            break
        hold = reservation_from_row(row)
        status = Status.FAILED if hold.status is Status.SETTLING else Status.CANCELLED
        ended.append(replace(hold, status=status))
        units -= hold.quantity
    return ended


def _told(sold: Sequence[Reservation], known: Collection[str], now: int) -> list[Event]:
    unheard = [r for r in sold if r.reservation_id not in known]
    created = [Event("reservation.created", now, r.reservation_id, r.quantity, r.expires_at) for r in unheard]
    return created + [_event(r, now) for r in sold]


def _event(r: Reservation, now: int) -> Event:
    return Event(f"reservation.{r.status}", now, r.reservation_id, r.quantity, r.expires_at)
