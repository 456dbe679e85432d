"""Quotes: an amount that is promised to a buyer, and that the reservation and the order keep."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    # Earlier programs would settle a quoted purchase at the price of the sale.
    op.execute(sa.text("UPDATE compatibility SET min_reader = :least").bindparams(least=revision))
    op.add_column("orders", sa.Column("quote", sa.Text()))
    op.create_table(
        "quotes",
        sa.Column("quote_id", _Id, primary_key=True),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("reservation_id", _Id, nullable=False),
        sa.Column("base_amount", sa.BigInteger(), nullable=False),
        sa.Column("base_currency", sa.String(), nullable=False),
        sa.Column("rate", sa.String()),
        sa.Column("key", _Id),
    )
    op.create_index("quotes_by_expiry", "quotes", ["expires_at"])
    op.create_table(
        "quoted_prices",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("quote", sa.Text(), nullable=False),
    )
    op.create_index("quoted_prices_by_sale", "quoted_prices", ["sale_id"])
