"""The state from which a gate in Redis is rebuilt, in portions, because a pool may have a million holds.

It is read after the new epoch has begun and before the pool is open. Nothing changes in between, because the ledger
accepts only entries of a gate that is open under its epoch. If another process begins a newer epoch meanwhile, Redis
refuses the remaining portions of this one. Redis also does not open a pool whose holds do not add up to its counts.

Rows are sent without creating an object for each, because nobody can buy during the rebuild.

Each portion ends with a mark from which the next one continues; the last has none. A portion limits the rows that are
scanned, not those that match: a pool with many sales has few holds among many rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, func, select, text, tuple_

from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import LIVE, RELEASED
from holdfast.ledger.stock.journal import HELD
from holdfast.ledger.tables.stock import idempotency, pools, reservations

# Redis loads this many in some milliseconds, during which it does nothing else. Each portion is synced.
PORTION = 2_500

Mark: TypeAlias = tuple[str, ...]
START: Mark = ()
# In the order in which they are sent.
_HOLD = [
    reservations.c[name]
    for name in ("reservation_id", "owner_id", "quantity", "status", "created_at", "expires_at", "attempts")
]
# Plain strings, as stored in a row: hashing an enum member is ten times as slow.
_HELD, _LIVE, _RELEASED = (frozenset(status.value for status in some) for some in (HELD, LIVE, RELEASED))
_ACTIVE = Status.ACTIVE.value
_FIRST_ANSWER = [
    idempotency.c[name]
    for name in ("owner_id", "key", "fingerprint", "reservation_id", "quantity", "created_at", "expires_at")
]


class Portion(NamedTuple):
    """The held reservations, and for each owner: live units, released holds, and the IDs of active ones."""

    holds: Sequence[Row[Any]]
    owners: Mapping[str, tuple[int, int, list[str]]]


def holds_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[Portion, Mark]:
    in_portion, mark = _portion_after(connection, sku_id, mark)
    held = select(*_HOLD).where(*in_portion, reservations.c.status.in_(HELD))
    return Portion(connection.execute(held).all(), {}), mark


def holds_and_owners_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[Portion, Mark]:
    """What each owner has in this portion. Redis adds up an owner's values over several portions: portions by owner
    would have to read the whole pool."""
    in_portion, mark = _portion_after(connection, sku_id, mark)
    since = connection.execute(select(pools.c.counted_from).where(pools.c.sku_id == sku_id)).scalar() or 0
    found = connection.execute(select(*_HOLD).where(*in_portion)).all()
    owners: dict[str, tuple[int, int, list[str]]] = {}
    for reservation_id, owner_id, quantity, status, created_at, *_ in found:
        if created_at < since and status != _ACTIVE:
            continue
        live, released, active = owners.get(owner_id) or (0, 0, [])
        if status == _ACTIVE:
            active.append(reservation_id)
        owners[owner_id] = live + quantity * (status in _LIVE), released + (status in _RELEASED), active
    return Portion([row for row in found if row[3] in _HELD], owners), mark


def owner_ids_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[str], Mark]:
    """The owners of the reservations in this portion."""
    in_portion, mark = _portion_after(connection, sku_id, mark)
    return list(connection.execute(select(reservations.c.owner_id).where(*in_portion).distinct()).scalars()), mark


def _portion_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[list[ColumnElement[bool]], Mark]:
    """The conditions that select the next portion, and its mark."""
    _use_index(connection)
    reservation_id = reservations.c.reservation_id
    rest = [reservations.c.sku_id == sku_id, *(reservation_id > last for last in mark)]
    page = select(reservation_id).where(*rest).order_by(reservation_id).limit(PORTION).subquery()
    last, count = connection.execute(select(func.max(page.c.reservation_id), func.count()).select_from(page)).one()
    return [*rest, reservation_id <= (last or "")], (last,) if count == PORTION else START


def remembered_after(connection: Connection, sku_id: str, mark: Mark) -> tuple[Sequence[Row[Any]], Mark]:
    _use_index(connection)
    key = (idempotency.c.owner_id, idempotency.c.key)
    query = select(*_FIRST_ANSWER).where(idempotency.c.sku_id == sku_id).order_by(*key).limit(PORTION)
    if mark:
        query = query.where(tuple_(*key) > tuple_(*mark))
    found = connection.execute(query).all()
    return found, (found[-1].owner_id, found[-1].key) if len(found) == PORTION else START


def _use_index(connection: Connection) -> None:
    """PostgreSQL's statistics lag behind during a sale: it expects few rows, and would read and sort the rest of the
    pool for each portion."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL enable_sort = off"))
