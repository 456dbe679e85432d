"""Deletes reservations that ended unsold, with all their events, once they are old.

The model. A reservation that was cancelled, expired or failed took units and returned them, so its events add up to
zero: the sums over a pool's events stay the same without them. Sold reservations are kept, and so are those that a
payment, a settlement, a claim or an undelivered webhook refers to. One event in the pool, `pool.pruned`, replaces what
is deleted. It has the number of deleted reservations, the units they took and returned, and a digest of their hashes,
which stay, and of the previous digest. So `holdfast verify` still finds that everything adds up and that history is
unchanged, and a backup can be checked against the hashes.

The pruner visits one pool after the other, a portion at a time under the pool's lock, and stores its progress.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, delete, exists, func, insert, select, update

from holdfast.domain.stock.reservation import Status
from holdfast.ledger.chain.leaves import hashes_of, prune_events, unkept
from holdfast.ledger.engine.facts import NO_FACTS
from holdfast.ledger.tables.money import payments, settlements
from holdfast.ledger.tables.stock import claims, events, pools, reservations
from holdfast.ledger.tables.streams import streams
from holdfast.ledger.tables.webhooks import webhooks

PRUNED = "pool.pruned"
RETURNED = (Status.CANCELLED, Status.EXPIRED, Status.FAILED)
_KEPT_FOR = (payments, settlements, claims)
# Idempotency keys, whose replies include their reservation, are kept for little more than a day.
LEAST_KEPT_MS = 2 * 24 * 3_600_000
# Sold reservations stay and are scanned again in every round, so rounds are rare.
ROUND_MS = 3_600_000


class Pruned(Struct, frozen=True):
    """The subject of the event: the reservations it replaces."""

    count: int
    taken: int
    returned: int
    digest: str

    @classmethod
    def parse(cls, subject: str) -> "Pruned | None":
        """None if the text is not such a subject."""
        match = re.fullmatch(r"(\d+)/(\d+)/(\d+)/(\w+)", subject)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]), match[4])

    def __str__(self) -> str:
        return f"{self.count}/{self.taken}/{self.returned}/{self.digest}"


def oldest_returned(connection: Connection) -> str | None:
    """The oldest reservation that may be deleted at some point."""
    returned = select(func.min(reservations.c.reservation_id)).where(reservations.c.status.in_(RETURNED))
    return connection.execute(returned).scalar()


class ReservationPruner:
    def __init__(self, archived_seq: int | None = None) -> None:
        """With `archived_seq`, later events are not in the archive, and no reservation that has one is deleted."""
        self._archived_seq = archived_seq
        self.deleted = 0
        self._sku_id = ""
        self._after = ""
        # Reservations older than this were checked in the last round.
        self._done = 0

    def prune(self, connection: Connection, older_than: int, *, limit: int) -> int:
        """Deletes the next portion. Returns `limit` while this round has more to check."""
        if older_than < self._done + ROUND_MS:
            return 0
        rows = self._next_rows(connection, older_than, limit)
        if rows:
            self._after = rows[-1].reservation_id
            ids = [row.reservation_id for row in rows if row.status in RETURNED]
            if ids:
                self.deleted += _replace(connection, self._sku_id, ids, older_than, self._archived_seq)
            return limit
        later = select(func.min(pools.c.sku_id)).where(pools.c.sku_id > self._sku_id)
        self._sku_id, self._after = connection.execute(later).scalar() or "", ""
        if not self._sku_id:
            self._done = older_than
        return limit if self._sku_id else 0

    def _next_rows(self, connection: Connection, older_than: int, limit: int) -> Sequence[Any]:
        # An ID begins with its creation time.
        young = f"rsv_{max(older_than, 0):012x}"
        query = select(reservations.c.reservation_id, reservations.c.status).where(
            reservations.c.sku_id == self._sku_id,
            reservations.c.reservation_id > self._after,
            reservations.c.reservation_id < young,
        )
        return connection.execute(query.order_by(reservations.c.reservation_id).limit(limit)).all()


def _replace(connection: Connection, sku_id: str, ids: Sequence[str], older_than: int, archived_seq: int | None) -> int:
    """Returns how many were deleted."""
    of_pool = pools.c.sku_id == sku_id
    pool = connection.execute(
        select(pools.c.decided_at, pools.c.pruned_seq).where(of_pool).with_for_update()
    ).one_or_none()
    if pool is None:
        return 0
    found = connection.execute(_history_of(connection, ids, older_than)).all()
    # All of its events must be old: it may have ended long after it was created.
    young = {row.reservation_id for row in found if row.at >= older_than or _is_after(row.seq, archived_seq)}
    old = [row for row in found if row.reservation_id not in young]
    if not old:
        return 0
    gone = {row.reservation_id for row in old}
    seqs = [row.seq for row in old]
    hashes = hashes_of(connection, unkept(connection, seqs))
    stands_for = _stands_for(old, pruning_digest(_last_digest(connection, pool.pruned_seq), hashes.values()))
    told = {"sku_id": sku_id, "type": PRUNED, "at": pool.decided_at}
    told |= {"quantity": stands_for.taken, "subject": str(stands_for), "facts": NO_FACTS}
    # Before any deletion: SQLite numbers an event after the highest existing one, which must never decrease.
    pruned_by = connection.execute(insert(events).values(**told).returning(events.c.seq)).scalar_one()
    connection.execute(update(pools).where(of_pool).values(pruned_seq=pruned_by))
    prune_events(connection, seqs, hashes, pruned_by)
    connection.execute(delete(reservations).where(reservations.c.reservation_id.in_(gone)))
    return len(gone)


def _is_after(seq: int, archived_seq: int | None) -> bool:
    return archived_seq is not None and seq > archived_seq


def _history_of(connection: Connection, ids: Sequence[str], older_than: int) -> Any:
    id_ = reservations.c.reservation_id
    reached = _published(connection, older_than)
    is_needed: list[ColumnElement[bool]] = [exists().where(table.c.reservation_id == id_) for table in _KEPT_FOR]
    if reached is not None:
        is_needed.append(exists().where(events.c.reservation_id == id_, events.c.seq > reached))
    wanted = select(id_).where(id_.in_(ids), reservations.c.status.in_(RETURNED), *[~need for need in is_needed])
    return select(events).where(events.c.reservation_id.in_(wanted)).order_by(events.c.seq)


def _published(connection: Connection, older_than: int) -> int | None:
    """The last event that every webhook and the stream have reached; None if there are none. A stream that no process
    has published since then was switched off."""
    relayed = select(func.min(webhooks.c.relayed_seq)).where(webhooks.c.disabled_at.is_(None))
    streamed = select(streams.c.position).where(streams.c.name == "kafka", streams.c.leased_until > older_than)
    found = [connection.execute(query).scalar() for query in (relayed, streamed)]
    return min((position for position in found if position is not None), default=None)


def pruning_digest(before: str, hashes: Iterable[bytes]) -> str:
    """Digest of events that are pruned together, in order, continuing an earlier digest."""
    return sha256(before.encode() + b"".join(hashes)).hexdigest()


def _stands_for(old: Sequence[Row[Any]], digest: str) -> Pruned:
    taken = sum(row.quantity or 0 for row in old if row.type == "reservation.created")
    returned = sum(row.quantity or 0 for row in old if row.type in [f"reservation.{why}" for why in RETURNED])
    return Pruned(len({row.reservation_id for row in old}), taken, returned, digest)


def _last_digest(connection: Connection, pruned_seq: int | None) -> str:
    before = Pruned.parse(connection.execute(select(events.c.subject).where(events.c.seq == pruned_seq)).scalar() or "")
    return "" if before is None else before.digest
