"""All tables together, for whoever compares or creates them."""

from holdfast.ledger import challenges, room_tables, sale_tables, tables, webhook_tables

metadata = tables.metadata

__all__ = ["challenges", "metadata", "room_tables", "sale_tables", "tables", "webhook_tables"]
