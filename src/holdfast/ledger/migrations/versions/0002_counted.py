"""Index owners only where a pool counts them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Everything there is was written under the old index, so it counts as counted.
    op.add_column("reservations", sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true()))
    op.drop_index("reservations_by_owner", "reservations")
    op.create_index(
        "reservations_counted_by_owner",
        "reservations",
        ["owner_id", "sku_id"],
        sqlite_where=sa.text("counted = 1"),
        postgresql_where=sa.text("counted"),
    )
