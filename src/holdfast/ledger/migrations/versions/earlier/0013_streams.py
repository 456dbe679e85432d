"""Streams: the position up to which events were published, and the last published counts of pools."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "streams",
        sa.Column("name", _Id, primary_key=True),
        *[_number(name) for name in ("position", "update_number")],
        sa.Column("holder", _Id),
        *[_number(name) for name in ("leased_until", "fence", "updated_at")],
    )
    op.create_table(
        "pool_updates",
        sa.Column("sku_id", _Id, primary_key=True),
        *[sa.Column(name, sa.BigInteger(), nullable=False) for name in ("number", "total", "held", "sold")],
        sa.Column("sale_id", _Id),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    op.create_index("pool_updates_by_number", "pool_updates", ["number"], unique=True)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")
