"""Irreversible actions wait for a second operator."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "approvals",
        sa.Column("approval_id", _Id, primary_key=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String()),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("body", sa.Text()),
        sa.Column("idempotency_key", sa.String()),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("requested_by_id", _Id),
        sa.Column("requested_by", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("requested_at", "expires_at")),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("decided_by_id", _Id),
        sa.Column("decided_by", sa.String()),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("status", sa.Integer()),
        sa.Column("reason", sa.String()),
    )
    op.create_index("approvals_by_state", "approvals", ["state", "requested_at"])
