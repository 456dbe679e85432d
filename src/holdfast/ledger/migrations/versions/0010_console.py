"""The console: who is signed in, and what was counted of each pool."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "pool_counts",
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sku_id", "name"),
    )
    op.create_table(
        "console_sessions",
        sa.Column("session_id", _Id, nullable=False),
        sa.Column("secret_hash", sa.String(), nullable=False),
        sa.Column("key_id", _Id),
        sa.Column("key_hash", sa.String()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_index("console_sessions_by_expiry", "console_sessions", ["expires_at"])
