"""Batches on PostgreSQL in fewer round trips than a transaction takes. Imported by the gate."""
