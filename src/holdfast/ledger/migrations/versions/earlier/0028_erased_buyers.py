"""Buyers can be erased: events keep their original hashes and are changed to a pseudonym."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

_Sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "redacted_events",
        sa.Column("seq", _Sequence, primary_key=True, autoincrement=False),
        sa.Column("erased_by", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("hash", sa.String(), nullable=False),
    )
    op.create_index("redacted_events_by_erasure", "redacted_events", ["erased_by", "seq"])
    op.add_column("places", sa.Column("entry", sa.String()))
    if op.get_context().dialect.name == "sqlite":
        for action in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER redacted_events_no_{action} BEFORE {action} ON redacted_events  "
                "BEGIN SELECT RAISE(ABORT, 'redacted_events is append-only'); END"
            )
        return
    run, on = "EXECUTE FUNCTION holdfast_append_only()", "ON redacted_events"
    op.execute(f"CREATE TRIGGER redacted_events_no_update_or_delete BEFORE UPDATE OR DELETE {on} FOR EACH ROW {run}")
    op.execute(f"CREATE TRIGGER redacted_events_no_truncate BEFORE TRUNCATE {on} {run}")
