"""I1 and I2: what the pools count is what their reservations add up to, and never more than there is."""

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select

from holdfast.domain.reservation import Status
from holdfast.domain.rulebook import LIVE
from holdfast.ledger.journal import HELD
from holdfast.ledger.sale_tables import sales
from holdfast.ledger.tables import claims, events, is_on_its_way, pools, reservations, splits, transfers
from holdfast.verify.check import Check, Level

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

# A claim is a sale that the journal has not told of yet; once it has, the reservation counts as sold by itself.
_unheard = ~exists().where(
    reservations.c.reservation_id == claims.c.reservation_id, reservations.c.status == Status.CONFIRMED
)
_claimed = (
    select(claims.c.sku_id, func.sum(claims.c.quantity).label("units"))
    .where(_unheard)
    .group_by(claims.c.sku_id)
    .subquery("claimed")
)
_claimed_units = func.coalesce(_claimed.c.units, 0)

_within_total = Check(
    "pools_within_total",
    "No pool has sold, claimed or promised more units than it has.",
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
    "What each pool counts as held, sold and active is what its reservations add up to.",
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
    "Everything that was ever recorded of a pool, added up from nothing, gives the pool as it is.",
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
    "Every reservation is of a pool that exists.",
    reservations,
    select(reservations.c.reservation_id, reservations.c.sku_id).where(
        ~exists().where(pools.c.sku_id == reservations.c.sku_id)
    ),
)


def _is_of(name: ColumnElement[str], sku_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a pool is the SKU itself or one of its shards."""
    return or_(name == sku_id, func.substr(name, 1, func.length(sku_id) + 1) == sku_id.concat("/"))


_in_shards = select(func.coalesce(func.sum(pools.c.total), 0)).where(_is_of(pools.c.sku_id, splits.c.sku_id))
_on_their_way = select(func.coalesce(func.sum(transfers.c.units), 0)).where(
    is_on_its_way, _is_of(transfers.c.donor, splits.c.sku_id)
)
_split = (
    select(
        splits.c.sku_id,
        splits.c.total,
        _in_shards.scalar_subquery().label("in_shards"),
        _on_their_way.scalar_subquery().label("on_their_way"),
    )
    .where(splits.c.shards > 1)
    .subquery("split")
)
_splits = Check(
    "splits_add_up",
    "The units of every SKU that is split are in its shards or on their way between them.",
    splits,
    select(_split).where(_split.c.total != _split.c.in_shards + _split.c.on_their_way),
)

# A limit that is lowered later is legal, and so is who was above it by then. Of a pool in a sale it is known when its
# rules last changed: whoever was granted something after that and is above the limit should have been refused. Of any
# other pool, or one whose limit was set past its sale, nothing says when; that is a note.
_of_owners = (
    select(
        reservations.c.sku_id,
        reservations.c.owner_id,
        func.sum(_quantity).label("units"),
        func.max(reservations.c.created_at).label("last_granted_at"),
    )
    .where(_status.in_(LIVE), reservations.c.sku_id == pools.c.sku_id, pools.c.per_owner_limit.is_not(None))
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
    "Nobody was granted units above the limit of the sale.",
    reservations,
    _over_limit.where(_granted_above),
)
_limits_now = Check(
    "limits_above_now",
    "Owners above the limit as it is now; legal if it was lowered after they took theirs, which nothing tells here.",
    reservations,
    _over_limit.where(~func.coalesce(_granted_above, False)),
    Level.NOTE,
)

CHECKS = (_within_total, _count_reservations, _count_events, _have_pool, _splits, _limits, _limits_now)
