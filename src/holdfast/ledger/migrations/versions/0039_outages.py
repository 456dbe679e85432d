"""Outages are stored for the report after a sale."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only an addition: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "outages",
        sa.Column("process", _Id, primary_key=True),
        sa.Column("subject", _Id, primary_key=True),
        sa.Column("began_at", sa.BigInteger(), primary_key=True),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False, server_default="0"),
    )
    op.create_index("outages_by_age", "outages", ["last_at"])
