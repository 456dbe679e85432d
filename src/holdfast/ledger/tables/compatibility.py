"""One row: which programs may use these tables."""

from sqlalchemy import Column, Table

from holdfast.ledger.tables.columns import Id, metadata

compatibility = Table(
    "compatibility",
    metadata,
    # The oldest revision a program may have. A migration that removes or renames something raises it.
    Column("min_reader", Id, primary_key=True),
)
