"""Pools that are split into shards, and the units on their way between them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_ON_ITS_WAY = sa.text("taken_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "splits",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("shards", sa.Integer, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.CheckConstraint("shards > 0 AND total >= 0", name="split_possible"),
    )
    op.create_table(
        "transfers",
        sa.Column("donor", _Id, primary_key=True),
        sa.Column("receiver", _Id, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("units", sa.BigInteger, nullable=False),
        sa.Column("given_at", sa.BigInteger, nullable=False),
        sa.Column("taken_at", sa.BigInteger),
        sa.CheckConstraint("units > 0", name="transferred_units_positive"),
    )
    op.create_index("transfers_by_receiver", "transfers", ["receiver", "donor", "number"])
    op.create_index(
        "transfers_on_their_way",
        "transfers",
        ["given_at"],
        sqlite_where=_ON_ITS_WAY,
        postgresql_where=_ON_ITS_WAY,
    )
