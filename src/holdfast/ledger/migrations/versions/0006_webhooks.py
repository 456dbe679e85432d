"""Who wants to hear of events, and what was sent to them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    _create_webhooks()
    _create_deliveries()


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("webhook_id", _Id, nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("previous_secret", sa.String()),
        sa.Column("previous_until", sa.BigInteger()),
        sa.Column("description", sa.String()),
        sa.Column("relayed_seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("webhook_id"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", _Id, nullable=False),
        sa.Column("webhook_id", _Id, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("subject", _Id, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), server_default="waiting", nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.CheckConstraint("state IN ('waiting', 'done', 'parked', 'dropped')", name="delivery_state_known"),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_index("deliveries_by_webhook", "deliveries", ["webhook_id", "seq"])
    for name, columns, condition in (
        ("deliveries_waiting", ["webhook_id", "subject", "seq"], sa.text("state = 'waiting'")),
        ("deliveries_due", ["webhook_id", "due_at", "seq"], sa.text("state = 'waiting'")),
        ("deliveries_parked", ["created_at"], sa.text("state = 'parked'")),
        ("deliveries_ended", ["done_at"], sa.text("done_at IS NOT NULL")),
    ):
        op.create_index(name, "deliveries", columns, sqlite_where=condition, postgresql_where=condition)
