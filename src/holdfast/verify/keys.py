"""I5: an idempotency key refers to one existing reservation of the same owner."""

from sqlalchemy import func, or_, select

from holdfast.ledger.tables.stock import idempotency, reservations
from holdfast.verify.check import Check

_key = (idempotency.c.key, idempotency.c.owner_id, idempotency.c.sku_id)

_points_somewhere = Check(
    "keys_have_reservation",
    "Every idempotency key refers to an existing reservation of the same owner, pool and quantity.",
    idempotency,
    select(*_key, idempotency.c.reservation_id)
    .outerjoin(reservations, reservations.c.reservation_id == idempotency.c.reservation_id)
    .where(
        or_(
            reservations.c.reservation_id.is_(None),
            reservations.c.owner_id != idempotency.c.owner_id,
            reservations.c.sku_id != idempotency.c.sku_id,
            reservations.c.quantity != idempotency.c.quantity,
            reservations.c.created_at != idempotency.c.created_at,
        )
    ),
)

_one_answer = Check(
    "keys_have_one_answer",
    "No idempotency key of an owner has two answers.",
    idempotency,
    select(*_key, func.count().label("answers")).group_by(*_key).having(func.count() > 1),
)

_one_key = Check(
    "reservations_have_one_key",
    "No reservation is the answer to two idempotency keys.",
    idempotency,
    select(idempotency.c.reservation_id, func.count().label("keys"))
    .group_by(idempotency.c.reservation_id)
    .having(func.count() > 1),
)

CHECKS = (_points_somewhere, _one_answer, _one_key)
