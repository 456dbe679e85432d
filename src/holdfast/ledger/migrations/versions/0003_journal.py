"""How far the ledger has read the journal of a gate in Redis, and what it has let go before."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("pools", sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("pools", sa.Column("journal_seq", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "claims",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("owner_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("claimed_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("quantity > 0", name="claimed_quantity_positive"),
    )
    op.create_index("claims_by_sku", "claims", ["sku_id"])
