"""What a gate in Redis is rebuilt from, in portions, because a pool may have a million holds.

Read after the new epoch has begun and before the pool is open: nothing of it changes in between, since the ledger takes
no entries but those of a gate that is open under its epoch. If somebody begins a still newer epoch meanwhile, Redis
takes no more of this one; and it does not open a pool whose holds do not add up to its counts.

Each portion ends with a mark, from which the next one goes on; the last has none. A portion bounds what is looked at,
not what is found: a pool that has sold much has few holds among many rows.
"""

from typing import TypeAlias

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, select, text, tuple_

from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.rulebook import LET_GO, LIVE
from holdfast.domain.state import Remembered
from holdfast.ledger.batch import remembered_from_row, reservation_from_row
from holdfast.ledger.journal import HELD
from holdfast.ledger.tables import idempotency, reservations

PORTION = 5_000

Mark: TypeAlias = tuple[str, ...]
START: Mark = ()


class Owner(Struct):
    """What one owner has in a portion: live units, holds let go, and the ids of those that are active."""

    owner_id: str
    live_units: int = 0
    let_go: int = 0
    active: list[str] = []


def holds_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Reservation], Mark]:
    in_portion, mark = _portion_after(connection, sku_id, mark)
    held = select(reservations).where(*in_portion, reservations.c.status.in_(HELD))
    return [reservation_from_row(row) for row in connection.execute(held)], mark


def owners_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Owner], Mark]:
    """What each has in this portion. Who has more in another is told of again there, and Redis adds it up: a portion
    by owners would have to look at the whole pool."""
    in_portion, mark = _portion_after(connection, sku_id, mark)
    owners: dict[str, Owner] = {}
    wanted = [reservations.c[name] for name in ("owner_id", "reservation_id", "quantity", "status")]
    for row in connection.execute(select(*wanted).where(*in_portion)):
        owner = owners.setdefault(row.owner_id, Owner(row.owner_id))
        owner.live_units += row.quantity if row.status in LIVE else 0
        owner.let_go += row.status in LET_GO
        if row.status == Status.ACTIVE:
            owner.active.append(row.reservation_id)
    return list(owners.values()), mark


def _portion_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[ColumnElement[bool]], Mark]:
    """What reservations of the next portion have in common, and its own mark."""
    _go_by_index(connection)
    reservation_id = reservations.c.reservation_id
    rest = [reservations.c.sku_id == sku_id, *(reservation_id > last for last in mark)]
    page = select(reservation_id).where(*rest).order_by(reservation_id).limit(PORTION).subquery()
    last, count = connection.execute(select(func.max(page.c.reservation_id), func.count()).select_from(page)).one()
    return [*rest, reservation_id <= (last or "")], (last,) if count == PORTION else START


def remembered_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Remembered], Mark]:
    _go_by_index(connection)
    key = (idempotency.c.owner_id, idempotency.c.key)
    query = select(idempotency).where(idempotency.c.sku_id == sku_id).order_by(*key).limit(PORTION)
    if mark:
        query = query.where(tuple_(*key) > tuple_(*mark))
    found = [remembered_from_row(row) for row in connection.execute(query)]
    return found, (found[-1].owner_id, found[-1].key) if len(found) == PORTION else START


def _go_by_index(connection: Connection) -> None:
    """PostgreSQL believes its statistics, which are behind in a sale: that there are few, and that it may as well read
    and sort all that is left of the pool for each portion of it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL enable_sort = off"))
