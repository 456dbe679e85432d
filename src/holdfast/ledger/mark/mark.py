"""How far the ledger was seen, and whether it still is that far.

The model. A mark records which ledger was seen (its incarnation, a random ID kept in the ledger; on PostgreSQL also the
system identifier and the timeline), the highest event in it, a digest of that event, and the head of the chain over all
events (`ledger/chain/`). Marks are kept outside the ledger. A ledger with less than its mark went back: an old backup
was restored, or a lagging replica was promoted. If it has another event under the marked number, or another chain, it
went back and was written to since, or its history was rewritten.

An operator resolves it with `holdfast recover`, which begins a new incarnation and records the old one before it. A
mark of a recorded earlier incarnation has been dealt with.

When it fails. Marks are taken several times a second and not with every commit; `watch.py` says what that misses.
"""

import secrets
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, bindparam, func, insert, select, text

from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.chain.links import Head, read_head, root_at
from holdfast.ledger.tables.chain import redacted_events
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.stock import events, reservations

# Databases limit the number of parameters per query.
LOOKED_UP_MAX = 1_000
_OPEN = (Status.ACTIVE, Status.SETTLING)
# Built once: they are run several times a second.
_LATEST = select(events).order_by(events.c.seq.desc()).limit(1)
_LATEST_OF = _LATEST.where(events.c.reservation_id == bindparam("reservation_id"))
_EVENT = select(events).where(events.c.seq == bindparam("seq"))
_REDACTED = select(redacted_events.c.seq).where(redacted_events.c.seq == bindparam("seq"))
_STATUS = select(reservations.c.reservation_id, reservations.c.status).where(
    reservations.c.reservation_id.in_(bindparam("ids", expanding=True))
)
# The timeline is the first part of a WAL file's name. Right after a promotion, only this function knows the new one.
_IDENTITY = """
    SELECT (SELECT system_identifier::text FROM pg_control_system()),
           CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
"""


class Mark(Struct, frozen=True):
    incarnation: str
    seq: int = 0
    digest: str = ""
    system: str = ""
    timeline: str = ""
    head: Head = Head()
    # The incarnation that this ledger began with. A backup has it, however old it is.
    first: str = ""


class Acknowledged(Struct, frozen=True):
    """A reservation as last acknowledged, and its idempotency key."""

    reservation: Reservation
    key: str | None = None
    fingerprint: str = ""

    @property
    def reservation_id(self) -> str:
        return self.reservation.reservation_id


class Loss(Struct, frozen=True):
    """What a server exports when it detects that the ledger went back: all recent acknowledgements, lost or not."""

    finding: str
    seen: Mark
    ledger: Mark | None
    reservations: Sequence[Acknowledged] = ()


class KeptMark(Struct, frozen=True):
    """A mark outside the ledger. `place` is the database's address without its password, `checkpoint` the head of the
    chain, signed."""

    place: str
    mark: Mark
    checkpoint: Checkpoint | None = None


class Incarnation(Struct, frozen=True):
    number: int
    incarnation: str
    after_seq: int


def read_mark(connection: Connection) -> Mark | None:
    """The current mark of the ledger; None if no server has ever used it."""
    return _mark_after(connection, read_incarnations(connection))


def _mark_after(connection: Connection, history: Sequence[Incarnation]) -> Mark | None:
    if not history:
        return None
    latest = connection.execute(_LATEST).one_or_none()
    seq, digest = (0, "") if latest is None else (latest.seq, _digest(latest))
    system, timeline = _identity(connection)
    head, first = read_head(connection), history[0].incarnation
    return Mark(history[-1].incarnation, seq, digest, system, timeline, head, first)


def read_incarnations(connection: Connection) -> list[Incarnation]:
    return [Incarnation(*row) for row in connection.execute(_INCARNATIONS)]


_INCARNATIONS = select(*(incarnations.c[name] for name in Incarnation.__struct_fields__)).order_by(
    incarnations.c.number
)


def number_of(history: Sequence[Incarnation], seq: int) -> str:
    """An event's number, unique over all incarnations. Events from before the first incarnation have only `seq`."""
    own = [each.incarnation for each in history if each.after_seq < seq]
    return f"{own[-1]}_{seq}" if own else str(seq)


def begin_incarnation(connection: Connection, number: int, now: int, **decision: Any) -> str:
    """Later events belong to the new incarnation. Fails if another process has begun one with this number."""
    after_seq = select(func.coalesce(func.max(events.c.seq), 0)).scalar_subquery()
    values = {"number": number, "incarnation": secrets.token_hex(5), "began_at": now, "after_seq": after_seq} | decision
    connection.execute(insert(incarnations).values(values))
    return str(values["incarnation"])


def mark_of(connection: Connection, reservation_id: str) -> Mark | None:
    """How far the ledger certainly was once it had this reservation. The same until the reservation changes."""
    latest = connection.execute(_LATEST_OF, {"reservation_id": reservation_id}).one_or_none()
    own = [] if latest is None else [i for i in read_incarnations(connection) if i.after_seq < latest.seq]
    return Mark(own[-1].incarnation, latest.seq, _digest(latest)) if latest is not None and own else None


def write_mark(mark: Mark) -> str:
    return f"{mark.incarnation}.{mark.seq}.{mark.digest}"


def parse_mark(written: str | None) -> Mark | None:
    """None for anything that `write_mark` did not write."""
    match (written or "").split("."):
        case [incarnation, seq, digest] if seq.isdecimal():
            return Mark(incarnation, int(seq), digest)
    return None


def first_lacking(connection: Connection, marks: Collection[Mark]) -> Mark | None:
    """The first of these marks that the ledger lacks, ignoring those that an operator has decided about."""
    now = read_mark(connection)
    if now is None:
        return None
    own = [mark for mark in marks if mark.incarnation == now.incarnation]
    rows = connection.execute(select(events).where(events.c.seq.in_([mark.seq for mark in own])))
    digests = {row.seq: _digest(row) for row in rows}
    lacks = (mark for mark in own if mark.seq > now.seq or digests.get(mark.seq, mark.digest) != mark.digest)
    return next(lacks, None)


def is_of(connection: Connection, kept: KeptMark, place: str) -> bool:
    """Whether a mark belongs to the ledger at this place: taken there, or before the ledger was moved or restored to
    it."""
    known = {each.incarnation for each in read_incarnations(connection)}
    return kept.place == place or not known.isdisjoint((kept.mark.incarnation, kept.mark.first))


def went_back(connection: Connection, seen: Mark, acknowledged: Collection[Acknowledged] = ()) -> str | None:
    """What the ledger lacks, as a message. `acknowledged` are reservations that the ledger certainly had in that
    state."""
    history = read_incarnations(connection)
    known, now = {each.incarnation for each in history}, _mark_after(connection, history)
    if now is None or seen.incarnation not in known:
        return f"it is not the ledger that was seen before, which had events up to {seen.seq}"
    if now.incarnation != seen.incarnation:
        return None  # An operator has decided how to continue.
    change = "" if (now.system, now.timeline) == (seen.system, seen.timeline) else _moved(seen, now)
    if now.seq < seen.seq:
        return f"its events end at {now.seq}, and {seen.seq} was seen before{change}"
    marked = connection.execute(_EVENT, {"seq": seen.seq}).one_or_none()
    if marked is not None and _digest(marked) != seen.digest and not _is_redacted(connection, seen.seq):
        return f"event {seen.seq} is not the one that was seen before{change}"
    if _rewrote(connection, seen.head, now.head):
        return f"its history up to event {seen.head.seq} is not the one that was seen before{change}"
    lost = lacking(connection, acknowledged)
    return f"it lacks what was acknowledged, such as {lost[0].reservation_id}{change}" if lost else None


def _is_redacted(connection: Connection, seq: int) -> bool:
    """Whether a buyer was erased from this event: only the chain still has its original hash."""
    return connection.execute(_REDACTED, {"seq": seq}).first() is not None


def _rewrote(connection: Connection, seen: Head, now: Head) -> bool:
    """Whether the chain does not continue the one that was seen."""
    if seen.links >= now.links:
        return seen != now
    return bool(seen.links) and root_at(connection, seen.links) != seen.root


def lacking(connection: Connection, acknowledged: Collection[Acknowledged]) -> list[Acknowledged]:
    """The reservations among these that the ledger lacks, or still has open although they had ended."""
    latest = {each.reservation_id: each for each in acknowledged}
    ids = list(latest)
    parts = [ids[start : start + LOOKED_UP_MAX] for start in range(0, len(ids), LOOKED_UP_MAX)]
    found = (connection.execute(_STATUS, {"ids": part}) for part in parts)
    status = {row.reservation_id: Status(row.status) for rows in found for row in rows}
    return [each for name, each in latest.items() if _is_lost(each.reservation.status, status.get(name))]


def _is_lost(acknowledged: Status, stored: Status | None) -> bool:
    return stored is None or (stored in _OPEN and acknowledged not in _OPEN)


def _identity(connection: Connection) -> tuple[str, str]:
    if connection.dialect.name != "postgresql":
        return "", ""
    row = connection.execute(text(_IDENTITY)).one()
    return row[0], row[1]


def _moved(seen: Mark, now: Mark) -> str:
    return f" (server {seen.system}, timeline {seen.timeline}; now server {now.system}, timeline {now.timeline})"


def _digest(event: Row[Any]) -> str:
    facts = (event.sku_id, event.reservation_id, event.type, event.at, event.quantity, event.subject)
    return sha256(repr(facts).encode()).hexdigest()[:16]
