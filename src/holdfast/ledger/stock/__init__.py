"""Queries on pools, reservations, idempotency keys, journal positions and shards.

Every layer above the ledger may import it.
"""
