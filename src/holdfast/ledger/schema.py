"""All tables together, for whoever compares or creates them."""

from holdfast.ledger import sale_tables, tables, webhook_tables

metadata = tables.metadata

__all__ = ["metadata", "sale_tables", "tables", "webhook_tables"]
