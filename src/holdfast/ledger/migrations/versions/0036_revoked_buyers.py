"""Buyers and single tokens can be revoked."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    for table, key in (("revoked_buyers", "buyer_id"), ("revoked_tokens", "token_id")):
        op.create_table(
            table,
            sa.Column(key, _Id, primary_key=True),
            sa.Column("revoked_at", sa.BigInteger(), nullable=False),
            sa.Column("expires_at", sa.BigInteger(), nullable=False),
            sa.Column("reason", sa.String()),
            sa.Column("revoked_by", sa.String(), nullable=False),
        )
