"""Arrivals that become places later, and when each request for a place reached a socket."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "arrivals",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("buyer_id", _Id, primary_key=True),
        sa.Column("ticket_id", sa.String(), nullable=False),
        sa.Column("arrived_at", sa.BigInteger(), nullable=False),
        sa.Column("node", _Id, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("staged_at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("arrivals_in_order", "arrivals", ["sale_id", "arrived_at", "node", "sequence"])
    op.create_index("arrivals_by_staging", "arrivals", ["sale_id", "staged_at"])
    op.add_column("places", sa.Column("arrived_at", sa.BigInteger()))
    op.add_column("places", sa.Column("staged_at", sa.BigInteger()))
