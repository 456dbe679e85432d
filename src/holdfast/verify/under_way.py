"""What is not finished yet, and so is neither right nor wrong."""

from sqlalchemy import ColumnElement, and_, exists, or_

from holdfast.domain.reservation import Status
from holdfast.ledger.sale_tables import settlements
from holdfast.ledger.tables import claims, pools, reservations

# A parked item waits for a person. One that was dropped does not wait any more: what it left undone stays undone.
UNDER_WAY = ("waiting", "telling", "parked")

# By names of their own, so that a question about the same tables can ask this as well.
_work, _gates = settlements.alias("work"), pools.alias("gates")


def is_being_settled(reservation_id: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(_work.c.reservation_id == reservation_id, _work.c.state.in_(UNDER_WAY))


def is_unheard() -> ColumnElement[bool]:
    """Whether a gate in Redis may have ended a settling reservation and its journal has not told of it yet."""
    is_claimed = exists().where(claims.c.reservation_id == reservations.c.reservation_id)
    is_in_redis = exists().where(_gates.c.sku_id == reservations.c.sku_id, _gates.c.epoch > 0)
    return and_(reservations.c.status == Status.SETTLING, or_(is_claimed, is_in_redis))
