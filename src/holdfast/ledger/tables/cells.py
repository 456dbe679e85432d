"""Which cell sells what. The map is in the control database; each cell's own ledger has the cell's name.

Lock order: a change of the map locks the row of its version first. So versions are committed in order, and a reader
that has one has everything before it.
"""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text, false

from holdfast.ledger.tables.columns import Id, Millis, metadata

# One row. In a cell: its permanent name, so that no other cell can be started on its database.
cell_identity = Table(
    "cell_identity",
    metadata,
    Column("cell", Id, primary_key=True),
    Column("since", Millis, nullable=False),
)

# One row, in the control database: how often the map was changed.
cell_map = Table(
    "cell_map",
    metadata,
    Column("name", Id, primary_key=True),
    Column("version", BigInteger, nullable=False),
)

# A SKU is wholly in one cell: IDs of reservations name the SKU (ADR 4).
cell_skus = Table(
    "cell_skus",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("cell", Id, nullable=False),
    # The SKU has the cell to itself: no other SKU is put there.
    Column("pinned", Boolean, nullable=False, server_default=false()),
    # While it is being moved, as JSON: the destination and the amounts. The SKU is not served then.
    Column("move", Text),
    # As JSON: its earlier cells, each with the time until which it was there. Reservations of that time are still
    # there.
    Column("past", Text),
    Column("version", BigInteger, nullable=False),
)

# A sale stays where it was sold, with its orders, even if its SKU is moved for the next sale.
cell_sales = Table(
    "cell_sales",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("cell", Id, nullable=False),
    Column("version", BigInteger, nullable=False),
)
