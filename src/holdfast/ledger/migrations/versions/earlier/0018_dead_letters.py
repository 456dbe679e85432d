"""Dead letters: parked items that were published to the topic, and messages that no consumer can read."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "dead_letters",
        sa.Column("kind", _Id, primary_key=True),
        sa.Column("item_id", _Id, primary_key=True),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "parked_messages",
        sa.Column("message_id", _Id, primary_key=True),
        sa.Column("state", sa.String(), nullable=False, server_default="parked"),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("history", sa.Text()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('parked', 'dropped')", name="parked_message_state_known"),
    )
