"""Batches on PostgreSQL in fewer round trips than a transaction takes. Only the gate may import it."""
