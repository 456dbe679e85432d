"""What a gate in Redis is rebuilt from, in portions, because a pool may have a million holds.

Read after the new epoch has begun and before the pool is open: nothing of it changes in between, since the ledger takes
no entries but those of a gate that is open under its epoch. If somebody begins a still newer epoch meanwhile, Redis
takes no more of this one; and it does not open a pool whose holds do not add up to its counts.

Each portion ends with a mark, from which the next one goes on; the last has none. A portion bounds what is looked at,
not what is found: a pool that has sold much has few holds among many rows.
"""

from typing import TypeAlias

from msgspec import Struct
from sqlalchemy import Connection, func, select, tuple_

from holdfast.domain.reservation import Reservation
from holdfast.domain.rulebook import LET_GO, LIVE
from holdfast.domain.state import Remembered
from holdfast.ledger.batch import remembered_from_row, reservation_from_row
from holdfast.ledger.journal import HELD
from holdfast.ledger.tables import idempotency, is_active, reservations

PORTION = 5_000

Mark: TypeAlias = tuple[str, ...]
START: Mark = ()


class Owner(Struct, frozen=True):
    """What one owner has in a pool: live units, holds let go, and the ids of those that are active."""

    owner_id: str
    live_units: int
    let_go: int
    active: list[str]


def holds_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Reservation], Mark]:
    reservation_id = reservations.c.reservation_id
    rest = [reservations.c.sku_id == sku_id, *(reservation_id > last for last in mark)]
    page = select(reservation_id).where(*rest).order_by(reservation_id).limit(PORTION).subquery()
    last, count = connection.execute(select(func.max(page.c.reservation_id), func.count()).select_from(page)).one()
    if not count:
        return [], START
    held = select(reservations).where(*rest, reservation_id <= last, reservations.c.status.in_(HELD))
    found = [reservation_from_row(row) for row in connection.execute(held)]
    return found, (last,) if count == PORTION else START


def owners_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Owner], Mark]:
    owner_id = reservations.c.owner_id
    rest = [reservations.c.sku_id == sku_id, reservations.c.counted, *(owner_id > last for last in mark)]
    live = func.coalesce(func.sum(reservations.c.quantity).filter(reservations.c.status.in_(LIVE)), 0)
    let_go = func.count().filter(reservations.c.status.in_(LET_GO))
    tallies = select(owner_id, live, let_go).where(*rest).group_by(owner_id).order_by(owner_id).limit(PORTION)
    owners = {row[0]: Owner(row[0], int(row[1]), int(row[2]), []) for row in connection.execute(tallies)}
    if not owners:
        return [], START
    last = next(reversed(owners))
    active = select(owner_id, reservations.c.reservation_id).where(*rest, owner_id <= last, is_active)
    for row in connection.execute(active):
        owners[row.owner_id].active.append(row.reservation_id)
    return list(owners.values()), (last,) if len(owners) == PORTION else START


def remembered_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[Remembered], Mark]:
    key = (idempotency.c.owner_id, idempotency.c.key)
    query = select(idempotency).where(idempotency.c.sku_id == sku_id).order_by(*key).limit(PORTION)
    if mark:
        query = query.where(tuple_(*key) > tuple_(*mark))
    found = [remembered_from_row(row) for row in connection.execute(query)]
    return found, (found[-1].owner_id, found[-1].key) if len(found) == PORTION else START
