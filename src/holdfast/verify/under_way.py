"""What is not finished yet, and so is neither right nor wrong."""

from sqlalchemy import ColumnElement, and_, exists, or_

from holdfast.domain.reservation import Status
from holdfast.ledger.sale_tables import settlements
from holdfast.ledger.tables import claims, reservations

# A parked item waits for a person. One that was dropped does not wait any more: what it left undone stays undone.
UNDER_WAY = ("waiting", "telling", "parked")

# By names of their own, so that a question about the same tables can ask this as well.
_work = settlements.alias("work")


def is_being_settled(reservation_id: ColumnElement[str]) -> ColumnElement[bool]:
    """By its own work, or by that of the one whose place it is to take."""
    is_under_way = _work.c.state.in_(UNDER_WAY)
    own = exists().where(_work.c.reservation_id == reservation_id, is_under_way)
    return or_(own, exists().where(_work.c.successor_id == reservation_id, is_under_way))


def is_unheard() -> ColumnElement[bool]:
    """Whether a settling reservation is sold, by a claim, and the journal of its gate has not told of it yet."""
    is_claimed = exists().where(claims.c.reservation_id == reservations.c.reservation_id)
    return and_(reservations.c.status == Status.SETTLING, is_claimed)
