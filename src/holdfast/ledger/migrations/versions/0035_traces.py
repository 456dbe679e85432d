"""Traces continue after the response to their request."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    # Earlier programs do not trace, and need not know about it.
    op.create_table(
        "traces",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("traceparent", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.add_column("operator_actions", sa.Column("trace_id", sa.String()))
    op.create_index("traces_by_age", "traces", ["created_at"])
