"""I1 and I2: the counts of every pool match its reservations, and never exceed its total."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, exists, func, or_, select

from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import LIVE
from holdfast.ledger.erasure.erasing import TYPE as ERASED
from holdfast.ledger.sales.pruning import HISTORY_PRUNED
from holdfast.ledger.stock.journal import HELD
from holdfast.ledger.stock.pruning import PRUNED, Pruned, pruning_digest
from holdfast.ledger.tables.chain import pruned_events
from holdfast.ledger.tables.sales import drop_units, drops, sales
from holdfast.ledger.tables.stock import (
    claims,
    events,
    is_in_transfer,
    pools,
    reservations,
    splits,
    transfers,
)
from holdfast.verify.check import Check, Computed, Level

_TOTALS = ("pool.provisioned", "pool.restocked", "pool.given", "pool.taken")
_RETURNS = ("reservation.failed", "reservation.cancelled", "reservation.expired")


def _sum_where(condition: ColumnElement[bool], value: ColumnElement[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, value), else_=0)), 0)


_status, _quantity = reservations.c.status, reservations.c.quantity
_by_reservations = (
    select(
        reservations.c.sku_id,
        _sum_where(_status.in_(HELD), _quantity).label("held"),
        _sum_where(_status == Status.CONFIRMED, _quantity).label("sold"),
        func.count().filter(_status == Status.ACTIVE).label("active"),
    )
    .group_by(reservations.c.sku_id)
    .subquery("by_reservations")
)

_type, _units = events.c.type, events.c.quantity
_confirmed = _sum_where(_type == "reservation.confirmed", _units)
_by_events = (
    select(
        events.c.sku_id,
        _sum_where(_type.in_(_TOTALS), _units).label("total"),
        (
            _sum_where(_type == "reservation.created", _units) - _confirmed - _sum_where(_type.in_(_RETURNS), _units)
        ).label("held"),
        _confirmed.label("sold"),
    )
    .group_by(events.c.sku_id)
    .subquery("by_events")
)

# A claim is a sale that is not in the journal yet. After that, the reservation itself counts as sold.
_not_drained = ~exists().where(
    reservations.c.reservation_id == claims.c.reservation_id, reservations.c.status == Status.CONFIRMED
)
_claimed = (
    select(claims.c.sku_id, func.sum(claims.c.quantity).label("units"))
    .where(_not_drained)
    .group_by(claims.c.sku_id)
    .subquery("claimed")
)
_claimed_units = func.coalesce(_claimed.c.units, 0)

_within_total = Check(
    "pools_within_total",
    "No pool has sold, claimed or reserved more units than it has.",
    pools,
    select(pools.c.sku_id, pools.c.total, pools.c.held, pools.c.sold, _claimed_units.label("claimed"))
    .outerjoin(_claimed, _claimed.c.sku_id == pools.c.sku_id)
    .where(
        or_(
            pools.c.held < 0,
            pools.c.sold < 0,
            pools.c.held + pools.c.sold > pools.c.total,
            pools.c.sold + _claimed_units > pools.c.total,
        )
    ),
)

_of_reservations = {name: func.coalesce(_by_reservations.c[name], 0) for name in ("held", "sold", "active")}
_count_reservations = Check(
    "pools_count_reservations",
    "The held, sold and active counts of every pool match its reservations.",
    reservations,
    select(
        pools.c.sku_id,
        pools.c.held,
        pools.c.sold,
        pools.c.active_reservations,
        *(units.label(f"{name}_by_reservations") for name, units in _of_reservations.items()),
    )
    .outerjoin(_by_reservations, _by_reservations.c.sku_id == pools.c.sku_id)
    .where(
        or_(
            pools.c.held != _of_reservations["held"],
            pools.c.sold != _of_reservations["sold"],
            pools.c.active_reservations != _of_reservations["active"],
        )
    ),
)

_of_events = {name: func.coalesce(_by_events.c[name], 0) for name in ("total", "held", "sold")}
_count_events = Check(
    "pools_count_events",
    "The counts of every pool match the sum of all its events.",
    events,
    select(
        pools.c.sku_id,
        pools.c.total,
        pools.c.held,
        pools.c.sold,
        *(units.label(f"{name}_by_events") for name, units in _of_events.items()),
    )
    .outerjoin(_by_events, _by_events.c.sku_id == pools.c.sku_id)
    .where(or_(*(pools.c[name] != units for name, units in _of_events.items()))),
)

_have_pool = Check(
    "reservations_have_pool",
    "Every reservation belongs to an existing pool.",
    reservations,
    select(reservations.c.reservation_id, reservations.c.sku_id).where(
        ~exists().where(pools.c.sku_id == reservations.c.sku_id)
    ),
)


def _is_of(name: ColumnElement[str], sku_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a pool is the SKU itself or one of its shards."""
    return or_(name == sku_id, func.substr(name, 1, func.length(sku_id) + 1) == sku_id.concat("/"))


_in_shards = select(func.coalesce(func.sum(pools.c.total), 0)).where(_is_of(pools.c.sku_id, splits.c.sku_id))
_in_transfer = select(func.coalesce(func.sum(transfers.c.units), 0)).where(
    is_in_transfer, _is_of(transfers.c.donor, splits.c.sku_id)
)
_split = (
    select(
        splits.c.sku_id,
        splits.c.total,
        _in_shards.scalar_subquery().label("in_shards"),
        _in_transfer.scalar_subquery().label("in_transfer"),
    )
    .where(splits.c.shards > 1)
    .subquery("split")
)
_splits = Check(
    "splits_add_up",
    "The units of every split SKU are in its shards or in transfer between them.",
    splits,
    select(_split).where(_split.c.total != _split.c.in_shards + _split.c.in_transfer),
)

# Lowering a limit later is legal, and so are owners who were above it by then. For a pool in a sale, the time of the
# last rule change is known: an owner above the limit who was granted units after it should have been refused. For any
# other pool, or one whose limit was set outside of its sale, the time is unknown, so it is only a note.
_of_owners = (
    select(
        reservations.c.sku_id,
        reservations.c.owner_id,
        func.sum(_quantity).label("units"),
        func.max(reservations.c.created_at).label("last_granted_at"),
    )
    .where(
        _status.in_(LIVE),
        reservations.c.sku_id == pools.c.sku_id,
        pools.c.per_owner_limit.is_not(None),
        reservations.c.created_at >= func.coalesce(pools.c.counted_from, 0),
    )
    .group_by(reservations.c.sku_id, reservations.c.owner_id, pools.c.per_owner_limit)
    .having(func.sum(_quantity) > pools.c.per_owner_limit)
    .subquery("of_owners")
)
_over_limit = (
    select(_of_owners.c.owner_id, _of_owners.c.sku_id, _of_owners.c.units, pools.c.per_owner_limit)
    .join(pools, pools.c.sku_id == _of_owners.c.sku_id)
    .outerjoin(sales, and_(sales.c.sale_id == pools.c.sale_id, sales.c.per_buyer_limit == pools.c.per_owner_limit))
)
_granted_above = and_(sales.c.sale_id.is_not(None), _of_owners.c.last_granted_at > sales.c.updated_at)

_limits = Check(
    "limits_kept",
    "Nobody was granted units above the limit of a sale.",
    reservations,
    _over_limit.where(_granted_above),
)
_limits_now = Check(
    "limits_above_now",
    "Owners above the current limit. Legal if the limit was lowered after their reservations, which is not recorded.",
    reservations,
    _over_limit.where(~func.coalesce(_granted_above, False)),
    Level.NOTE,
)


def _wrongly_pruned(connection: Connection) -> Iterator[dict[str, Any]]:
    is_pruned = events.c.type == PRUNED
    found = select(events.c.sku_id, events.c.seq, events.c.quantity, events.c.subject).where(is_pruned)
    before: dict[str, str] = {}
    last: dict[str, int] = {}
    for row in connection.execute(found.order_by(events.c.sku_id, events.c.seq)).all():
        pruned = Pruned.parse(row.subject or "")
        hashes = kept_hashes(connection, row.seq)
        # There are none from before hashes were kept.
        is_as_kept = pruned is not None and (
            not hashes or pruned.digest == pruning_digest(before.get(row.sku_id, ""), hashes)
        )
        if pruned is None or not pruned.taken == pruned.returned == row.quantity or not is_as_kept:
            yield {"sku_id": row.sku_id, "seq": row.seq, "pruned": row.subject}
        before[row.sku_id], last[row.sku_id] = "" if pruned is None else pruned.digest, row.seq
    known = connection.execute(select(pools.c.sku_id, pools.c.pruned_seq).where(pools.c.pruned_seq.is_not(None)))
    for sku_id, seq in {*last.items()} ^ {(row.sku_id, row.pruned_seq) for row in known}:
        yield {"sku_id": sku_id, "seq": seq, "pruned": None}
    stands_for_some = select(events.c.seq).where(events.c.type.in_((PRUNED, HISTORY_PRUNED, ERASED)))
    stray = select(pruned_events.c.seq).where(pruned_events.c.pruned_by.not_in(stands_for_some))
    yield from ({"seq": seq, "pruned": None} for seq in connection.execute(stray).scalars())


def kept_hashes(connection: Connection, pruned_by: int) -> list[bytes]:
    kept = select(pruned_events.c.hash).where(pruned_events.c.pruned_by == pruned_by).order_by(pruned_events.c.seq)
    return [bytes.fromhex(one) for one in connection.execute(kept).scalars()]


_pruned = Computed(
    "pruned_came_to_nothing",
    "Reservations that were deleted had returned all units they took, and their hashes were kept.",
    events,
    _wrongly_pruned,
)

# --- the limit per buyer across the sales of a drop

# A claim may have read the limit this long before it was written: no transaction takes longer.
CLAIM_MS = 10_000

_in_drops = (
    select(
        drop_units.c.buyer_id,
        drop_units.c.drop_id,
        func.sum(reservations.c.quantity).label("units"),
        drops.c.per_buyer_limit,
    )
    .join_from(drop_units, reservations, reservations.c.reservation_id == drop_units.c.reservation_id)
    .join(drops, drops.c.drop_id == drop_units.c.drop_id)
    .where(reservations.c.status.in_(LIVE), drops.c.per_buyer_limit.is_not(None))
    .group_by(drop_units.c.buyer_id, drop_units.c.drop_id, drops.c.per_buyer_limit, drops.c.limit_lowered_at)
    .having(
        func.sum(reservations.c.quantity) > drops.c.per_buyer_limit,
        func.max(drop_units.c.created_at) > func.coalesce(drops.c.limit_lowered_at + CLAIM_MS, 0),
    )
)
_drop_limits = Check(
    "drop_limits_kept",
    "Nobody was granted more units in the sales of a drop than its limit.",
    drop_units,
    _in_drops,
)

_is_claimed = exists().where(
    drop_units.c.reservation_id == reservations.c.reservation_id, drop_units.c.units >= reservations.c.quantity
)
_drop_claims = Check(
    "drop_units_claimed",
    "Everything that is held or sold in a drop with a limit was claimed of that limit.",
    reservations,
    select(reservations.c.reservation_id, reservations.c.owner_id, sales.c.drop_id, reservations.c.quantity)
    .join_from(reservations, pools, pools.c.sku_id == reservations.c.sku_id)
    .join(sales, sales.c.sale_id == pools.c.sale_id)
    .join(drops, drops.c.drop_id == sales.c.drop_id)
    .where(
        drops.c.per_buyer_limit.is_not(None),
        reservations.c.status.in_(LIVE),
        reservations.c.created_at >= sales.c.created_at,
        ~_is_claimed,
    ),
)

CHECKS: tuple[Check | Computed, ...] = (
    _within_total,
    _count_reservations,
    _count_events,
    _have_pool,
    _splits,
    _limits,
    _limits_now,
    _drop_limits,
    _drop_claims,
    _pruned,
)
