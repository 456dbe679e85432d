"""What can be delivered of a sale, which orders wait for units, and restocks that are asked for once."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("sales", sa.Column("deliverable_units", sa.BigInteger(), nullable=True))
    op.add_column("orders", sa.Column("units_to_source", sa.BigInteger(), server_default="0", nullable=False))
    op.create_index(
        "orders_to_source",
        "orders",
        ["sale_id"],
        sqlite_where=sa.text("units_to_source > 0"),
        postgresql_where=sa.text("units_to_source > 0"),
    )
    op.create_table(
        "restocks",
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("key", _Id, nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("is_done", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sale_id", "key"),
    )
