"""The ledger's side of a gate in Redis: its position in the journal, its claims, and the start of a rebuild.

Everything here happens under the lock of the pool's row. Entries are stored in order, each exactly once. An entry is
accepted only if it is the next one of the ledger's epoch, was decided on the state that the ledger has, and has counts
that match its events. So a gate that went back in time or miscounts cannot write its errors into the ledger. A claim
records a sale before the journal does, and only while sold and claimed units stay within the total: whatever the state
of Redis, the ledger does not oversell. A rebuild begins a new epoch; entries and claims of the old one are then
refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, case, delete, exists, func, insert, select, update

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.state import Changes, Counters, Event
from holdfast.ledger.stock.batch import BatchQueries, LockedPool, Position
from holdfast.ledger.stock.bought import bought_units
from holdfast.ledger.stock.transfers import ExpectedTransfers, counters_of, expected_transfers
from holdfast.ledger.tables.rows import reservation_from_row
from holdfast.ledger.tables.stock import claims, pools, reservations

HELD = (Status.ACTIVE, Status.SETTLING)
_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
# Every rebuild of a pool begins an epoch. No backup is older than this many epochs.
FORGOTTEN_EPOCHS_MAX = 1_000_000
_POSITIONS = select(pools.c.sku_id, pools.c.epoch, pools.c.journal_seq).where(pools.c.epoch > 0)


class Entry(Struct, frozen=True):
    """One entry of the journal: a batch that changed something."""

    epoch: int
    seq: int
    now: int
    # When the previous entry was decided. Two histories may share a number, but not with the same time.
    after: int
    changes: Changes


class OverLimit(Exception):
    """An entry sells an owner more than the limit."""


class SoldBefore(Exception):
    """An entry returns units that the ledger has claimed as sold, or moves a reservation that was ended to make room
    for them: the gate has lost the sale."""


class NewEpoch(Struct, frozen=True):
    """The starting state of a rebuilt gate. Holds are read afterwards (`gate_state.py`)."""

    epoch: int
    decided_at: int
    pool: Pool
    counters: Counters = Counters()


def position(connection: Connection, sku_id: str) -> Position | None:
    return positions(connection, [sku_id]).get(sku_id)


def positions(connection: Connection, sku_ids: Sequence[str] | None = None) -> dict[str, Position]:
    """The positions of the pools that are decided in Redis."""
    query = _POSITIONS if sku_ids is None else _POSITIONS.where(pools.c.sku_id.in_(sku_ids))
    return {row.sku_id: Position.of(row) for row in connection.execute(query)}


def outrun_epochs(connection: Connection) -> None:
    """A ledger that went back may have forgotten epochs that Redis knows. None of them may ever be used again."""
    epoch = pools.c.epoch
    forgotten = case((epoch > 0, epoch + FORGOTTEN_EPOCHS_MAX), else_=epoch - FORGOTTEN_EPOCHS_MAX)
    connection.execute(update(pools).where(epoch != 0).values(epoch=forgotten, journal_seq=0))


def retire(connection: Connection, locked: LockedPool) -> None:
    """The pool is no longer in Redis. Its epoch is kept, so that it is never used again."""
    ended = update(pools).where(pools.c.sku_id == locked.sku_id)
    connection.execute(ended.values(epoch=-locked.position.epoch, journal_seq=0))


def pool_exists(connection: Connection, sku_id: str) -> bool:
    return connection.execute(select(exists().where(pools.c.sku_id == sku_id))).scalar_one()


def find_reservations(connection: Connection, sku_id: str, ids: Sequence[str]) -> dict[str, Reservation]:
    query = select(reservations).where(reservations.c.reservation_id.in_(ids), reservations.c.sku_id == sku_id)
    return {row.reservation_id: reservation_from_row(row) for row in connection.execute(query)}


class Journal:
    """The statements on one journal, under the lock of its pool."""

    def __init__(self, queries: BatchQueries) -> None:
        self._queries = queries

    def store(self, connection: Connection, sku_id: str, entries: Sequence[Entry]) -> Position | None:
        """Store the next entries, in order. Returns the new position."""
        locked = self._queries.lock(connection, sku_id, ())
        if locked.pool is None:
            return None
        expected = expected_transfers(connection, sku_id, [entry.changes for entry in entries])
        claimed = claimed_units(connection, sku_id)
        fresh = list(_next_entries(locked, entries, dict(claimed), expected))
        if not fresh:
            return locked.position
        changes = fold([entry.changes for entry in fresh])
        assert changes.pool is not None
        if locked.pool.rules.per_owner_limit is not None and over_the_limit(
            connection, locked, unclaimed_sales(connection, changes)
        ):
            raise OverLimit
        # Until a lost sale is settled, grants of its units are ended here; the gate may still move these.
        if claimed and (
            returned_in(changes) & claimed.keys()
            or returned_among(connection, [r.reservation_id for r in changes.moved])
        ):
            raise SoldBefore
        locked.counts_owners = changes.pool.rules.count_owners
        self._queries.store(connection, locked, changes, fresh[-1].now)
        forget_claims(connection, changes)
        return self.advance(connection, sku_id, Position(fresh[-1].epoch, fresh[-1].seq))

    def advance(self, connection: Connection, sku_id: str, to: Position) -> Position:
        connection.execute(update(pools).where(pools.c.sku_id == sku_id).values(epoch=to.epoch, journal_seq=to.seq))
        return to

    def claim(self, connection: Connection, sku_id: str, epoch: int, wanted: Sequence[Reservation], now: int) -> int:
        """Claim the units of these sold reservations, in order. Returns how many could be claimed."""
        locked = self._queries.lock(connection, sku_id, ())
        if locked.pool is None or locked.position.epoch != epoch:
            return 0
        ids = [r.reservation_id for r in wanted]
        known, returned = _already_claimed(connection, ids), returned_among(connection, ids)
        gone = locked.pool.sold + sum(claimed_units(connection, sku_id).values())
        over_limit = over_the_limit(connection, locked, [r for r in wanted if r.reservation_id not in known])
        granted: list[Reservation] = []
        for count, reservation in enumerate(wanted):
            if reservation.reservation_id in known:
                continue
            is_refused = reservation.reservation_id in returned | over_limit
            if is_refused or gone + reservation.quantity > locked.pool.total:
                insert_claims(connection, granted, now)
                return count
            gone += reservation.quantity
            granted.append(reservation)
            known.add(reservation.reservation_id)
        insert_claims(connection, granted, now)
        return len(wanted)

    def begin_epoch(self, connection: Connection, locked: LockedPool, now: int) -> NewEpoch:
        """Begin a new epoch and turn the claims of the old one into sales."""
        assert locked.pool is not None
        sku_id = locked.sku_id
        decided_at = pool_time(now, locked.decided_at)
        pool = self._settle_claims(connection, locked, decided_at)
        epoch = self.advance(connection, sku_id, Position(locked.last_epoch + 1, 0)).epoch
        return NewEpoch(epoch, decided_at, pool, counters_of(connection, sku_id))

    def _settle_claims(self, connection: Connection, locked: LockedPool, now: int) -> Pool:
        """Claimed units are sold, whether or not the journal ever recorded it.

        If a gate that had lost a sale granted its units again, that later grant cannot be kept: the newest holds end
        first, and those being paid for last.
        """
        sku_id, pool = locked.sku_id, locked.pool
        assert pool is not None
        sold = _claimed(connection, sku_id, now)
        ids = [r.reservation_id for r in sold]
        known = find_reservations(connection, sku_id, ids)
        held, active = _held_besides(connection, sku_id, ids)
        sold_units = sum(r.quantity for r in sold)
        taken_back = _take_back(connection, sku_id, ids, sold_units + held + pool.sold - pool.total)
        changes = Changes(
            created=[r for r in sold if r.reservation_id not in known],
            moved=[_confirmed(known[r.reservation_id], r) for r in sold if r.reservation_id in known] + taken_back,
            events=[event_of(r, now) for r in taken_back] + _events_of_sold(sold, known, now),
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


def unclaimed_sales(connection: Connection, changes: Changes) -> list[Reservation]:
    """The sales that the ledger has not checked against the limit when it claimed them."""
    sold = sold_in(changes)
    known = _already_claimed(connection, list(sold)) if sold else set()
    return [r for r in (*changes.created, *changes.moved) if r.reservation_id in sold - known]


def _next_entries(
    locked: LockedPool, entries: Sequence[Entry], claimed: dict[str, int], expected: ExpectedTransfers
) -> Iterable[Entry]:
    at, pool, decided_at = locked.position, locked.pool, locked.decided_at
    for entry in entries:
        if (entry.epoch, entry.seq) != (at.epoch, at.seq + 1):
            continue
        assert pool is not None
        if not (follows(entry, pool, decided_at, claimed) and expected.allows(entry.changes)):
            return
        yield entry
        expected.advance(entry.changes)
        for reservation_id in sold_in(entry.changes):
            claimed.pop(reservation_id, None)
        at, pool, decided_at = Position(entry.epoch, entry.seq), entry.changes.pool, entry.now


def follows(entry: Entry, pool: Pool, decided_at: int, claimed: Mapping[str, int]) -> bool:
    """Whether an entry with the right number was decided on this state of the pool.

    A gate that lost a sale counts without it and would sell its units again; the claim prevents that.
    """
    said = entry.changes.pool
    assert said is not None
    total, held, sold = counts_after(pool, entry.changes)
    is_counted = (said.total, said.held, said.sold) == (total, held, sold)
    sold_here = sold_in(entry.changes)
    forgotten = sum(units for reservation_id, units in claimed.items() if reservation_id not in sold_here)
    is_possible = min(held, sold, total - held - sold, total - sold - forgotten) >= 0
    return entry.after == decided_at and is_counted and is_possible


def sold_in(changes: Changes) -> set[str]:
    return {r.reservation_id for r in [*changes.created, *changes.moved] if r.status is Status.CONFIRMED}


def returned_in(changes: Changes) -> set[str]:
    return {r.reservation_id for r in [*changes.created, *changes.moved] if r.status in _RETURNED}


def counts_after(pool: Pool, changes: Changes) -> tuple[int, int, int]:
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
    """Merges consecutive batches into one."""
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


def forget_claims(connection: Connection, changes: Changes) -> None:
    sold = sold_in(changes)
    if sold:
        connection.execute(delete(claims).where(claims.c.reservation_id.in_(sold)))


def over_the_limit(connection: Connection, locked: LockedPool, sold: Sequence[Reservation]) -> set[str]:
    """Which of these sales, not in the ledger yet, put their owners above the limit: the gate has lost data."""
    limit = None if locked.pool is None else locked.pool.rules.per_owner_limit
    if limit is None or not sold:
        return set()
    bought = bought_units(connection, locked.sku_id, {r.owner_id for r in sold})
    over: set[str] = set()
    for r in sold:
        units = bought.get(r.owner_id, 0) + r.quantity
        if units > limit and not locked.may_exceed_limit(r):
            over.add(r.reservation_id)
        else:
            bought[r.owner_id] = units
    return over


def _already_claimed(connection: Connection, ids: list[str]) -> set[str]:
    claimed = select(claims.c.reservation_id).where(claims.c.reservation_id.in_(ids))
    sold = select(reservations.c.reservation_id).where(
        reservations.c.reservation_id.in_(ids), reservations.c.status == Status.CONFIRMED
    )
    return set(connection.execute(claimed.union(sold)).scalars())


def returned_among(connection: Connection, ids: list[str]) -> set[str]:
    """The reservations whose units were returned: only a gate that lost that can report them as sold."""
    ended = reservations.c.status.in_(_RETURNED)
    query = select(reservations.c.reservation_id).where(reservations.c.reservation_id.in_(ids), ended)
    return set(connection.execute(query).scalars())


def claimed_units(connection: Connection, sku_id: str) -> dict[str, int]:
    """Claims that the journal has not confirmed yet. Each exists only briefly, so they are few."""
    rows = connection.execute(select(claims.c.reservation_id, claims.c.quantity).where(claims.c.sku_id == sku_id))
    return {row.reservation_id: row.quantity for row in rows}


def insert_claims(connection: Connection, granted: Sequence[Reservation], now: int) -> None:
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


def _claimed(connection: Connection, sku_id: str, now: int) -> list[Reservation]:
    """Claims that are not recorded as sold yet, as sold reservations."""
    rows = connection.execute(select(claims).where(claims.c.sku_id == sku_id).order_by(claims.c.reservation_id))
    return [
        Reservation(
            r.reservation_id, r.sku_id, r.owner_id, r.quantity, Status.CONFIRMED, r.created_at, r.expires_at, 0, now
        )
        for r in rows
    ]


def _confirmed(known: Reservation, claimed: Reservation) -> Reservation:
    """The claim determines the deadline of the hold: the gate may have lost an extension before the ledger had it."""
    return replace(known, status=Status.CONFIRMED, expires_at=claimed.expires_at, confirmed_at=claimed.confirmed_at)


def _held_besides(connection: Connection, sku_id: str, ids: Collection[str]) -> tuple[int, int]:
    """The units held by other reservations, and how many of those holds are active."""
    units = func.coalesce(func.sum(reservations.c.quantity), 0)
    active = func.count().filter(reservations.c.status == Status.ACTIVE)
    row = connection.execute(select(units, active).where(*_is_held(sku_id, ids))).one()
    return int(row[0]), int(row[1])


def _is_held(sku_id: str, besides: Collection[str]) -> list[ColumnElement[bool]]:
    held = [reservations.c.sku_id == sku_id, reservations.c.status.in_(HELD)]
    return [*held, reservations.c.reservation_id.not_in(besides)] if besides else held


def _take_back(connection: Connection, sku_id: str, besides: Collection[str], units: int) -> list[Reservation]:
    """End holds until this many units are free."""
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


def _events_of_sold(sold: Sequence[Reservation], known: Collection[str], now: int) -> list[Event]:
    unknown = [r for r in sold if r.reservation_id not in known]
    created = [Event("reservation.created", now, r.reservation_id, r.quantity, r.expires_at) for r in unknown]
    return created + [event_of(r, now) for r in sold]


def event_of(r: Reservation, now: int) -> Event:
    return Event(f"reservation.{r.status}", now, r.reservation_id, r.quantity, r.expires_at)
