"""Messages to buyers: contacts, sent messages, and a switch for each sale."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.add_column("sales", sa.Column("notify", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_table(
        "contacts",
        sa.Column("buyer_id", _Id, primary_key=True),
        *(sa.Column(name, sa.String()) for name in ("email", "locale")),
        sa.Column("next_since", sa.BigInteger()),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("created_at", "updated_at")),
    )
    _index("contacts_next", "contacts", ["next_since"], "next_since IS NOT NULL")
    op.create_table(
        "messages",
        sa.Column("message_id", _Id, primary_key=True),
        *(sa.Column(name, _Id, nullable=False) for name in ("buyer_id", "sale_id")),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("kind", "channel")),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="waiting"),
        sa.Column("attempts", sa.BigInteger(), nullable=False, server_default="0"),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("due_at", "expires_at")),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0") for name in ("leased_until", "fence")),
        sa.Column("reason", sa.String()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.CheckConstraint(
            "state IN ('waiting', 'sending', 'sent', 'failed', 'unknown', 'dropped')", name="message_state_known"
        ),
    )
    op.create_index("messages_by_buyer", "messages", ["buyer_id", "created_at"])
    op.create_index("messages_by_age", "messages", ["created_at", "message_id"])
    _index("messages_due", "messages", ["channel", "due_at"], "state = 'waiting'")
    _index("messages_sending", "messages", ["leased_until"], "state = 'sending'")


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
