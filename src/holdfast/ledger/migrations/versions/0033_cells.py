"""Sales can be distributed over cells."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "cell_identity",
        sa.Column("cell", _Id, primary_key=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "cell_map",
        sa.Column("name", _Id, primary_key=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "cell_skus",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("cell", _Id, nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("move", sa.Text()),
        sa.Column("past", sa.Text()),
        sa.Column("version", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "cell_sales",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("cell", _Id, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
    )
