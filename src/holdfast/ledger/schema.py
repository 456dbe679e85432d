"""All tables together, for whoever compares or creates them."""

from holdfast.ledger import (
    challenges,
    console_sessions,
    pool_counts,
    room_tables,
    sale_tables,
    tables,
    webhook_tables,
)

metadata = tables.metadata

__all__ = [
    "challenges",
    "console_sessions",
    "metadata",
    "pool_counts",
    "room_tables",
    "sale_tables",
    "tables",
    "webhook_tables",
]
