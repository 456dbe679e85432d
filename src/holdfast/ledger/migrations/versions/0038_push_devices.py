"""Browsers in which buyers receive notifications."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only an addition: a server of the previous revision keeps running beside this one."""
    op.create_table(
        "push_devices",
        sa.Column("device_id", _Id, primary_key=True),
        sa.Column("buyer_id", _Id, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("endpoint", "browser_key", "auth")),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("push_devices_by_buyer", "push_devices", ["buyer_id"])
