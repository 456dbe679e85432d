"""Counters of pools over time."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "pool_history",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("seconds", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
