"""When a reservation was confirmed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("reservations", sa.Column("confirmed_at", sa.BigInteger()))
    op.execute(
        "UPDATE reservations SET confirmed_at = (SELECT max(at) FROM events "
        "WHERE events.reservation_id = reservations.reservation_id AND events.type = 'reservation.confirmed') "
        "WHERE status = 'confirmed'"
    )
