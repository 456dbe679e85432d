"""A sale may limit how often a buyer tries to buy."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    # Earlier programs would not count.
    op.execute(sa.text("UPDATE compatibility SET min_reader = :least").bindparams(least=revision))
    op.add_column("sales", sa.Column("purchase_attempts_max", sa.BigInteger()))
    op.create_table(
        "purchase_attempts",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("buyer_id", _Id, primary_key=True),
        sa.Column("key", _Id, primary_key=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
