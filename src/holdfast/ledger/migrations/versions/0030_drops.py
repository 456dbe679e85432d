"""Drops: several sales with one waiting line and a shared limit; limits per buyer start at zero in every sale."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    # Earlier programs would not count across the sales of a drop.
    op.execute(sa.text("UPDATE compatibility SET min_reader = :least").bindparams(least=revision))
    op.add_column("pools", sa.Column("counted_from", sa.BigInteger()))
    op.add_column("sales", sa.Column("drop_id", _Id))
    is_in_drop = sa.text("drop_id IS NOT NULL")
    op.create_index("sales_by_drop", "sales", ["drop_id"], sqlite_where=is_in_drop, postgresql_where=is_in_drop)
    op.create_table(
        "drops",
        sa.Column("drop_id", _Id, primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("per_buyer_limit", sa.BigInteger()),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("limit_lowered_at", sa.BigInteger()),
    )
    op.create_table(
        "drop_units",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("drop_id", _Id, nullable=False),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("idempotency_key", _Id),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("drop_units_by_buyer", "drop_units", ["drop_id", "buyer_id"])
    op.create_index("drop_units_by_sale", "drop_units", ["sale_id"])
