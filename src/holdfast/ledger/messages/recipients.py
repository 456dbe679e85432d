"""Recipients in a line: people who were called, and people who wait for a sold-out sale.

`streams` stores the progress for each line: `turns:LINE` counts the notified places, `sold_out:LINE` the arrivals. A
step writes its messages and its progress in one transaction, so each place is notified once.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, func, insert, literal, select, update

from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import SaleState, line_id_of
from holdfast.ledger.events.streams import ensure_stream
from holdfast.ledger.room.rooms import find_room
from holdfast.ledger.tables.messages import contacts
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.streams import streams

TURNS, SOLD_OUT, ANNOUNCED = "turns:", "sold_out:", "announced:"
# Places examined per transaction.
PORTION = 2_000


class InLine(Struct, frozen=True):
    buyer_id: str
    ticket_id: str
    arrival: int


# The line of its drop, else its own.
_LINE_OF_SALE = func.coalesce(literal(line_id_of("")) + sales.c.drop_id, sales.c.sale_id)


def lines_that_moved(connection: Connection) -> list[tuple[str, int | None]]:
    """Lines that have called somebody since the last pass, and their progress; None: no progress is stored yet."""
    name = literal(TURNS) + rooms.c.sale_id
    query = (
        select(rooms.c.sale_id, streams.c.position)
        .distinct()
        .select_from(sales)
        .join(rooms, rooms.c.sale_id == _LINE_OF_SALE)
        .outerjoin(streams, streams.c.name == name)
        .where(
            sales.c.state != SaleState.CLOSED, sales.c.notify, rooms.c.serving > func.coalesce(streams.c.position, 0)
        )
    )
    return [(row.sale_id, row.position) for row in connection.execute(query)]


def lines_sold_out(connection: Connection) -> list[tuple[str, int]]:
    """Sold-out lines in which some people have not been notified."""
    name = literal(SOLD_OUT) + rooms.c.sale_id
    query = select(rooms.c.sale_id, streams.c.position).join(streams, streams.c.name == name)
    return [(row.sale_id, row.position) for row in connection.execute(query.where(rooms.c.joined > streams.c.position))]


def called_people(connection: Connection, room: RoomState, first: int, last: int) -> list[InLine]:
    """People with a contact at places from `first` up to `last` who have not bought."""
    is_here = (*_in_line(room.sale_id), places.c.used_at.is_(None))
    if room.draw is None:
        return _people(connection, *is_here, places.c.arrival >= first, places.c.arrival < last)
    # A draw has no inverse, but few people in a line have a contact, and their places are quickly computed.
    return [one for one in _people(connection, *is_here) if first <= room.place_of(one.arrival) < last]


def waiting_people(connection: Connection, sale_id: str, first: int, last: int) -> list[InLine]:
    """People with a contact who arrived in this range and got nothing."""
    between = (places.c.arrival >= first, places.c.arrival < last)
    return _people(connection, *_in_line(sale_id), places.c.used_at.is_(None), *between)


def _in_line(sale_id: str) -> tuple[ColumnElement[bool], ...]:
    return places.c.sale_id == sale_id, places.c.ended_at.is_(None)


def _people(connection: Connection, *conditions: ColumnElement[bool]) -> list[InLine]:
    columns = (places.c.buyer_id, places.c.ticket_id, places.c.arrival)
    query = select(*columns).join(contacts, contacts.c.buyer_id == places.c.buyer_id).where(*conditions)
    return [InLine(*row) for row in connection.execute(query)]


def lock_progress(connection: Connection, name: str) -> int | None:
    """The progress; None if another process is working on it."""
    ensure_stream(connection, name)
    query = select(streams.c.position).where(streams.c.name == name).with_for_update(skip_locked=True)
    position: int | None = connection.execute(query).scalar_one_or_none()
    return position


def store_progress(connection: Connection, name: str, position: int, now: int) -> None:
    connection.execute(update(streams).where(streams.c.name == name).values(position=position, updated_at=now))


def begin_progress(connection: Connection, name: str, position: int, now: int) -> None:
    """Store the initial progress if there is none, so that earlier places and arrivals are skipped."""
    found = connection.execute(select(streams.c.name).where(streams.c.name == name)).first()
    if found is None:
        connection.execute(insert(streams).values(name=name, position=position, updated_at=now))


def has_progress(connection: Connection, name: str) -> bool:
    return connection.execute(select(streams.c.name).where(streams.c.name == name)).first() is not None


def unannounced_sales(connection: Connection, starts_before: int, now: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Sales that start soon or are open, and have not been announced."""
    name = literal(ANNOUNCED) + sales.c.sale_id
    goes_on = (sales.c.ends_at.is_(None)) | (sales.c.ends_at > now)
    is_near = (sales.c.state == SaleState.READY, sales.c.starts_at <= starts_before, goes_on, sales.c.notify)
    columns = (sales.c.sale_id, sales.c.starts_at, sales.c.created_at, sales.c.ends_at)
    query = select(*columns).outerjoin(streams, streams.c.name == name).where(*is_near)
    return connection.execute(query.where(func.coalesce(streams.c.position, 0) == 0)).all()


def room_of(connection: Connection, sale_id: str) -> RoomState | None:
    return find_room(connection, sale_id)
