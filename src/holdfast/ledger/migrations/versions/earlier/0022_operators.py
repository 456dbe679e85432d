"""Named operators, their sessions, and an append-only record of their actions."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_Sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "operators",
        sa.Column("operator_id", _Id, primary_key=True),
        sa.Column("email", _Id, nullable=False, unique=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        *(sa.Column(name, sa.String()) for name in ("password_hash", "invitation_hash")),
        sa.Column("invitation_expires_at", sa.BigInteger()),
        *(sa.Column(name, sa.String()) for name in ("issuer", "subject")),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String()),
        *(sa.Column(name, sa.BigInteger()) for name in ("joined_at", "disabled_at")),
        sa.UniqueConstraint("issuer", "subject", name="operators_by_subject"),
    )
    op.add_column("console_sessions", sa.Column("operator_id", _Id))
    op.add_column("console_sessions", sa.Column("method", sa.String(), nullable=False, server_default="key"))
    op.create_table(
        "operator_actions",
        sa.Column("seq", _Sequence, primary_key=True),
        sa.Column("action_id", _Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("operator_id", _Id),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("operator", "action")),
        sa.Column("subject", sa.String()),
        *(sa.Column(name, sa.Text()) for name in ("request", "state")),
        sa.Column("status", sa.Integer()),
        *(sa.Column(name, sa.String()) for name in ("reason", "request_id")),
    )
    op.create_index("operator_actions_by_id", "operator_actions", ["action_id", "phase"], unique=True)
    op.create_index("operator_actions_by_subject", "operator_actions", ["subject", "seq"])
    _protect()


def _protect() -> None:
    if op.get_context().dialect.name == "sqlite":
        for action in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER operator_actions_no_{action} BEFORE {action} ON operator_actions  "
                "BEGIN SELECT RAISE(ABORT, 'operator_actions is append-only'); END"
            )
        return
    run = "EXECUTE FUNCTION holdfast_append_only()"
    on = "ON operator_actions"
    op.execute(f"CREATE TRIGGER operator_actions_no_update_or_delete BEFORE UPDATE OR DELETE {on} FOR EACH ROW {run}")
    op.execute(f"CREATE TRIGGER operator_actions_no_truncate BEFORE TRUNCATE {on} {run}")
