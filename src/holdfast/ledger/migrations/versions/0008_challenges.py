"""Proof of work is spent once."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "spent_challenges",
        sa.Column("challenge_id", _Id, nullable=False),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("challenge_id"),
    )
    op.create_index("spent_challenges_by_expiry", "spent_challenges", ["expires_at"])
