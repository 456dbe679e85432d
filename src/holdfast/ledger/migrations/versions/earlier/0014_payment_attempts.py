"""How often a payment was begun for a reservation: a declined payment can be retried."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("reservations", sa.Column("attempts", sa.BigInteger(), nullable=False, server_default="0"))
    # Until now, a payment began once at most.
    op.execute(
        "UPDATE reservations SET attempts = 1 WHERE reservation_id IN "
        "(SELECT reservation_id FROM events WHERE type = 'reservation.settling')"
    )
