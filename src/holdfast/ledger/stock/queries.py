"""Queries on pools, reservations and idempotency keys outside a batch."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import CompoundSelect, Connection, SelectBase, bindparam, delete, func, select, tuple_, union

from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.shards import is_shard, whole_of, whole_pool
from holdfast.domain.stock.state import Remembered
from holdfast.ledger.engine.rows import encode_rows, rows_matching, rows_parameter
from holdfast.ledger.stock.splits import names_of, totals
from holdfast.ledger.tables.rows import pool_from_row, remembered_from_row, reservation_from_row
from holdfast.ledger.tables.stock import idempotency, is_active, pools, reservations

# The contract promises 24 hours; the extra hour keeps a retry at the last minute safe.
KEYS_KEPT_MS = 25 * 3_600_000


class PoolView(Struct, frozen=True):
    """A pool as its next buyer would find it: overdue holds count as free, as far as a reserve would return them."""

    pool: Pool
    next_return_at: int | None = None


class PoolQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        wanted = select(*rows_parameter(dialect_name, [pools.c.sku_id]).c)
        of_pool = reservations.c.sku_id == pools.c.sku_id
        is_due = reservations.c.expires_at <= bindparam("now")
        due = (
            select(reservations.c.quantity)
            .where(of_pool, is_active, is_due)
            .correlate(pools)
            .order_by(reservations.c.expires_at, reservations.c.reservation_id)
            .limit(DUE_RETURNED_MAX)
            .subquery("due")
        )
        self._views = select(
            pools,
            select(func.coalesce(func.sum(due.c.quantity), 0)).scalar_subquery().label("due_units"),
            select(func.count()).select_from(due).scalar_subquery().label("due_count"),
            select(func.min(reservations.c.expires_at))
            .where(of_pool, is_active, ~is_due)
            .scalar_subquery()
            .label("next"),
        )
        self._some_views = self._views.where(pools.c.sku_id.in_(wanted))
        # Through the first index entry, never through EXISTS: PostgreSQL turns that into a join, and with statistics
        # that lag behind during a sale it reads every reservation to find that none is due.
        earliest = select(func.min(reservations.c.expires_at)).where(of_pool, is_active).scalar_subquery()
        self._due_pools = (
            select(pools.c.sku_id, earliest)
            .where(pools.c.active_reservations > 0, earliest <= bindparam("now"))
            .order_by(pools.c.sku_id)
        )
        count = select(func.count()).where(of_pool, is_active, is_due).correlate(pools).scalar_subquery()
        overdue = select(count.label("count"), earliest.label("earliest")).where(
            pools.c.active_reservations > 0, earliest <= bindparam("now")
        )
        found = overdue.subquery("overdue")
        self._overdue = select(func.coalesce(func.sum(found.c.count), 0), func.min(found.c.earliest))

    def views(self, connection: Connection, sku_ids: Iterable[str], now: int) -> dict[str, PoolView]:
        given = {"rows": encode_rows([s] for s in sku_ids), "now": now}
        return {row.sku_id: _view(row) for row in connection.execute(self._some_views, given)}

    def all_views(self, connection: Connection, now: int, *, limit: int) -> list[PoolView]:
        statement = self._views.order_by(pools.c.sku_id).limit(limit)
        return _whole(connection, [_view(row) for row in connection.execute(statement, {"now": now})])

    def view(self, connection: Connection, sku_id: str, now: int) -> PoolView | None:
        """One pool, whether or not it is split."""
        found = self.views(connection, names_of(connection, sku_id), now)
        return next(iter(_whole(connection, list(found.values()))), None)

    def due_pools(self, connection: Connection, now: int) -> list[tuple[str, int]]:
        """The pools with holds that end by then, each with its earliest deadline."""
        return [(row[0], row[1]) for row in connection.execute(self._due_pools, {"now": now})]

    def overdue(self, connection: Connection, now: int) -> tuple[int, int | None]:
        """How many holds are past their deadline, and their earliest deadline."""
        count, earliest = connection.execute(self._overdue, {"now": now}).one()
        return int(count), earliest


pool_queries = cache(PoolQueries)


def _view(row: Any) -> PoolView:
    pool = pool_from_row(row)
    current = replace(
        pool, held=pool.held - int(row.due_units), active_reservations=pool.active_reservations - row.due_count
    )
    return PoolView(current, row.next if current.available == 0 else None)


def _whole(connection: Connection, views: Sequence[PoolView]) -> list[PoolView]:
    """The sum over the shards of a pool."""
    if not any(is_shard(view.pool.sku_id) for view in views):
        return list(views)
    by_sku: dict[str, list[PoolView]] = defaultdict(list)
    for view in views:
        by_sku[whole_of(view.pool.sku_id)].append(view)
    of_split = totals(connection)
    return [
        _together(sku_id, of_split[sku_id], parts) if sku_id in of_split else parts[0]
        for sku_id, parts in by_sku.items()
    ]


def _together(sku_id: str, total: int, parts: Sequence[PoolView]) -> PoolView:
    pool = whole_pool(sku_id, total, [part.pool for part in parts])
    returns = [part.next_return_at for part in parts if part.next_return_at is not None]
    return PoolView(pool, min(returns, default=None) if pool.available == 0 else None)


def find_reservation(connection: Connection, reservation_id: str, now: int) -> Reservation | None:
    row = connection.execute(select(reservations).where(reservations.c.reservation_id == reservation_id)).one_or_none()
    return None if row is None else as_of(_reservation(row), now)


class ReservationQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._by_id = rows_matching(dialect_name, reservations, [reservations.c.reservation_id])

    def found(self, connection: Connection, reservation_ids: Iterable[str], now: int) -> dict[str, Reservation]:
        rows = connection.execute(self._by_id, {"rows": encode_rows([i] for i in reservation_ids)})
        return {row.reservation_id: as_of(_reservation(row), now) for row in rows}


reservation_queries = cache(ReservationQueries)


def _reservation(row: Any) -> Reservation:
    """Hides shards from callers."""
    reservation = reservation_from_row(row)
    is_of_shard = is_shard(reservation.sku_id)
    return replace(reservation, sku_id=whole_of(reservation.sku_id)) if is_of_shard else reservation


def as_of(reservation: Reservation, now: int) -> Reservation:
    """A reservation past its deadline is expired, even before its units are returned."""
    return replace(reservation, status=Status.EXPIRED) if reservation.is_due(now) else reservation


def list_reservations(
    connection: Connection,
    now: int,
    *,
    limit: int,
    sku_id: str | None = None,
    owner_id: str | None = None,
    status: Status | None = None,
    starting_after: str | None = None,
    among: SelectBase | None = None,
) -> tuple[list[Reservation], bool]:
    """Newest first. Returns one page, and whether there is more. `among`: limits the result to these IDs."""
    query = select(reservations).order_by(reservations.c.reservation_id.desc()).limit(limit + 1)
    if sku_id is not None:
        query = query.where(reservations.c.sku_id.in_(names_of(connection, sku_id)))
    if owner_id is not None:
        query = query.where(reservations.c.owner_id == owner_id)
    if among is not None:
        query = query.where(reservations.c.reservation_id.in_(among))
    if status is Status.ACTIVE:
        query = query.where(is_active, reservations.c.expires_at > now)
    elif status is Status.EXPIRED:
        overdue = is_active & (reservations.c.expires_at <= now)
        query = query.where((reservations.c.status == status) | overdue)
    elif status is not None:
        query = query.where(reservations.c.status == status)
    if starting_after is not None:
        query = query.where(reservations.c.reservation_id < starting_after)
    page = [as_of(_reservation(row), now) for row in connection.execute(query)]
    return page[:limit], len(page) > limit


def ids_of_owner(connection: Connection, owner_id: str, sku_id: str | None) -> CompoundSelect[str]:
    """What an owner has in one pool, or in all that are in a sale.

    An index over all reservations by owner would slow down every grant (ADR 5). Where rules count owners, a partial
    index exists. Elsewhere purchases are found by their idempotency keys, which are kept for a day. A service's
    reservation without a key, in a pool without a limit, is not found.
    """
    in_a_sale = select(pools.c.sku_id).where(pools.c.sale_id.is_not(None))
    skus = in_a_sale if sku_id is None else list(names_of(connection, sku_id))
    counted = select(reservations.c.reservation_id).where(reservations.c.owner_id == owner_id, reservations.c.counted)
    with_key = select(idempotency.c.reservation_id).where(
        idempotency.c.sku_id.in_(skus), idempotency.c.owner_id == owner_id
    )
    return union(counted, with_key)


def find_remembered(connection: Connection, sku_id: str, owner_id: str, key: str) -> Remembered | None:
    """The first result under an idempotency key."""
    same = (idempotency.c.sku_id == sku_id, idempotency.c.owner_id == owner_id, idempotency.c.key == key)
    row = connection.execute(select(idempotency).where(*same)).one_or_none()
    return None if row is None else remembered_from_row(row)


def prune_keys(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` idempotency records older than this."""
    key = tuple_(idempotency.c.sku_id, idempotency.c.owner_id, idempotency.c.key)
    oldest = select(idempotency.c.sku_id, idempotency.c.owner_id, idempotency.c.key)
    oldest = oldest.where(idempotency.c.created_at < older_than).order_by(idempotency.c.created_at).limit(limit)
    return connection.execute(delete(idempotency).where(key.in_(oldest))).rowcount
