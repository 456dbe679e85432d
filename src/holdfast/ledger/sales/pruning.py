"""Deletes the line of a sale, and the addresses its buyers bought from, once the sale has been closed for long.

One event, `sale.pruned`, replaces the deleted places. It has their number, how many of them had and used a pass, and a
digest of them. They are deleted in order of arrival and the room counts them, so `holdfast verify` still finds that
everyone who joined had a place. Once all are deleted, so are the events that name them; their hashes stay.
`room.pruned` stands for a portion of these events, and has the row of the room. The pruner visits one sale after the
other, a portion at a time.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct, json
from sqlalchemy import Connection, Row, delete, exists, func, insert, or_, select, update

from holdfast.domain.sale.sale import SaleState, line_of_sale
from holdfast.ledger.chain.leaves import hashes_of, prune_events, unkept
from holdfast.ledger.engine.facts import encode_facts, record, row_facts
from holdfast.ledger.room.rooms import CHANGED, RECORDED, stream_of
from holdfast.ledger.stock.pruning import ROUND_MS, pruning_digest
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import address_units, drop_units, purchase_attempts, sales
from holdfast.ledger.tables.stock import events, reservations

PRUNED = "sale.pruned"
HISTORY_PRUNED = "room.pruned"
# No index finds the events of a room, so a portion scans this many and deletes few: each may name hundreds of buyers.
LOOKED_AT = 20_000
DELETED_MAX = 200


class PrunedPlaces(Struct, frozen=True):
    """The subject of the event."""

    sale_id: str
    first: int
    count: int
    passes: int
    used: int
    digest: str

    @classmethod
    def parse(cls, subject: str) -> "PrunedPlaces | None":
        """None if the text is not such a subject."""
        match = re.fullmatch(r"(.+)/(\d+)/(\d+)/(\d+)/(\d+)/(\w+)", subject)
        if match is None:
            return None
        return cls(match[1], int(match[2]), int(match[3]), int(match[4]), int(match[5]), match[6])

    def __str__(self) -> str:
        return f"{self.sale_id}/{self.first}/{self.count}/{self.passes}/{self.used}/{self.digest}"


class SalePruner:
    def __init__(self, kept_ms: int, *, keeps_lines: bool = False) -> None:
        """`keeps_lines`: delete neither places nor the events that name them."""
        self._kept_ms, self._keeps_lines = kept_ms, keeps_lines
        self._sale_id = ""
        # Sales closed before this were checked in the last round.
        self._done = 0

    def prune(self, connection: Connection, older_than: int, *, limit: int) -> int:
        """Deletes the next portion. Returns `limit` while this round has more to check."""
        if older_than < self._done + ROUND_MS:
            return 0
        if (
            self._prune_line(connection, older_than + self._kept_ms, limit)
            or _prune_addresses(connection, self._sale_id, limit)
            or _prune_attempts(connection, self._sale_id, limit)
            or _prune_allowances(connection, self._sale_id, limit)
        ):
            return limit
        is_next = (sales.c.sale_id > self._sale_id, sales.c.state == SaleState.CLOSED, sales.c.closed_at < older_than)
        self._sale_id = connection.execute(select(func.min(sales.c.sale_id)).where(*is_next)).scalar() or ""
        if not self._sale_id:
            self._done = older_than
        return limit if self._sale_id else 0

    def _prune_line(self, connection: Connection, now: int, limit: int) -> bool:
        if self._keeps_lines:
            return False
        line_id = _line_of(connection, self._sale_id, now - self._kept_ms)
        return bool(_prune_places(connection, self._sale_id, line_id, now, limit)) or _prune_history(
            connection, line_id, now
        )


def _line_of(connection: Connection, sale_id: str, older_than: int) -> str:
    """The line that can be deleted with this sale. The line of a drop goes with its last sale."""
    drop_id = connection.execute(select(sales.c.drop_id).where(sales.c.sale_id == sale_id)).scalar()
    is_needed = or_(sales.c.closed_at.is_(None), sales.c.closed_at >= older_than)
    if drop_id is None:
        return sale_id
    needed = select(sales.c.sale_id).where(sales.c.drop_id == drop_id, is_needed).limit(1)
    return sale_id if connection.execute(needed).first() is not None else line_of_sale(sale_id, drop_id)


def _prune_places(connection: Connection, sale_id: str, line_id: str, now: int, limit: int) -> int:
    room = connection.execute(select(rooms).where(rooms.c.sale_id == line_id).with_for_update()).one_or_none()
    if room is None or room.pruned == room.joined:
        return 0
    of_sale = places.c.sale_id == line_id
    rows = connection.execute(select(places).where(of_sale).order_by(places.c.arrival).limit(limit)).all()
    if not rows:
        return 0
    stands_for = _stands_for(line_id, room.pruned, rows)
    sku_id = connection.execute(select(sales.c.sku_id).where(sales.c.sale_id == sale_id)).scalar_one()
    record(connection, sku_id, PRUNED, now, {}, quantity=len(rows), subject=str(stands_for))
    connection.execute(delete(places).where(of_sale, places.c.arrival <= rows[-1].arrival))
    values = {"pruned": room.pruned + len(rows)}
    if values["pruned"] == room.joined:
        values["unpruned_before"] = connection.execute(select(func.max(events.c.seq))).scalar_one()
    connection.execute(update(rooms).where(rooms.c.sale_id == line_id).values(values))
    return len(rows)


def _prune_history(connection: Connection, sale_id: str, now: int) -> bool:
    """The latest events first, in portions that need not be full. False if nothing is left to check."""
    of_sale = rooms.c.sale_id == sale_id
    wanted = select(rooms.c.unpruned_before).where(of_sale, rooms.c.pruned == rooms.c.joined)
    before = connection.execute(wanted.with_for_update()).scalar()
    if before is None:
        return False
    of_room = (events.c.sku_id == stream_of(sale_id), events.c.type == CHANGED)
    within = (events.c.seq < before, events.c.seq >= before - LOOKED_AT)
    found = select(events.c.seq).where(*of_room, *within).order_by(events.c.seq.desc()).limit(DELETED_MAX)
    seqs = sorted(connection.execute(found).scalars())
    if seqs:
        _replace_history(connection, sale_id, seqs, now)
    before = seqs[0] if len(seqs) == DELETED_MAX else before - LOOKED_AT
    first = connection.execute(select(func.min(events.c.seq))).scalar_one()
    connection.execute(update(rooms).where(of_sale).values(unpruned_before=before if before > first else None))
    return True


def _replace_history(connection: Connection, sale_id: str, seqs: Sequence[int], now: int) -> None:
    hashes = hashes_of(connection, unkept(connection, seqs))
    room = connection.execute(select(*RECORDED).where(rooms.c.sale_id == sale_id)).one()
    told = {"sku_id": stream_of(sale_id), "type": HISTORY_PRUNED, "at": now, "quantity": len(hashes)}
    told |= {"subject": pruning_digest("", hashes.values()), "facts": encode_facts({"rooms": [row_facts(rooms, room)]})}
    pruned_by = connection.execute(insert(events).values(**told).returning(events.c.seq)).scalar_one()
    prune_events(connection, seqs, hashes, pruned_by)


def _stands_for(sale_id: str, first: int, rows: Sequence[Row[Any]]) -> PrunedPlaces:
    digest = sha256(b"".join(json.encode(dict(row._mapping), order="sorted") + b"\n" for row in rows))  # noqa: SLF001
    passes, used = (sum(getattr(row, name) is not None for row in rows) for name in ("place", "used_at"))
    return PrunedPlaces(sale_id, first, len(rows), passes, used, digest.hexdigest())


def _prune_addresses(connection: Connection, sale_id: str, limit: int) -> int:
    some = select(address_units.c.reservation_id).where(address_units.c.sale_id == sale_id).limit(limit)
    return connection.execute(delete(address_units).where(address_units.c.reservation_id.in_(some))).rowcount


def _prune_attempts(connection: Connection, sale_id: str, limit: int) -> int:
    """All rows of some buyers at once; the sale's limit bounds how many each has."""
    of_sale = purchase_attempts.c.sale_id == sale_id
    some = select(purchase_attempts.c.buyer_id).where(of_sale).distinct().limit(limit)
    return connection.execute(delete(purchase_attempts).where(of_sale, purchase_attempts.c.buyer_id.in_(some))).rowcount


def _prune_allowances(connection: Connection, sale_id: str, limit: int) -> int:
    """Allowances whose reservations are deleted or were never made: the others prove that a limit was kept."""
    has_reservation = exists().where(reservations.c.reservation_id == drop_units.c.reservation_id)
    some = select(drop_units.c.reservation_id).where(drop_units.c.sale_id == sale_id, ~has_reservation).limit(limit)
    return connection.execute(delete(drop_units).where(drop_units.c.reservation_id.in_(some))).rowcount
