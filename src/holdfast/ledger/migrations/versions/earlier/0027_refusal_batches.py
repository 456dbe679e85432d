"""A single search finds the refusals of all servers."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "refusal_batches",
        sa.Column("segment", sa.String(), primary_key=True),
        sa.Column("bucket", sa.Integer(), primary_key=True),
        sa.Column("number", sa.BigInteger(), primary_key=True),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
    )
    op.create_index("refusal_batches_by_bucket", "refusal_batches", ["bucket", "last_at"])
    op.create_index("refusal_batches_by_age", "refusal_batches", ["last_at"])
