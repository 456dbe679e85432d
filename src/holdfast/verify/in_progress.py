"""Work in progress, which is neither correct nor incorrect yet."""

from sqlalchemy import ColumnElement, and_, exists, or_

from holdfast.domain.stock.reservation import Status
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.stock import claims, reservations

# A parked item waits for an operator. A dropped one will not be continued.
IN_PROGRESS = ("waiting", "notifying", "parked")

# An alias, so that queries on the same table can use this condition too.
_work = settlements.alias("work")


def is_being_settled(reservation_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether its own settlement, or that of the reservation it replaces, is in progress."""
    is_in_progress = _work.c.state.in_(IN_PROGRESS)
    own = exists().where(_work.c.reservation_id == reservation_id, is_in_progress)
    return or_(own, exists().where(_work.c.successor_id == reservation_id, is_in_progress))


def is_not_drained() -> ColumnElement[bool]:
    """Whether a settling reservation has a claim whose confirmation has not been drained from the journal yet."""
    is_claimed = exists().where(claims.c.reservation_id == reservations.c.reservation_id)
    return and_(reservations.c.status == Status.SETTLING, is_claimed)
