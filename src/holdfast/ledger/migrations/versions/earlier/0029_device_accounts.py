"""How many accounts join a sale from one device may be limited."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "device_accounts",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("device", sa.String(), primary_key=True),
        sa.Column("slot", sa.Integer(), primary_key=True),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("device_accounts_by_age", "device_accounts", ["claimed_at"])
