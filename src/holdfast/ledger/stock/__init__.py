"""Queries on pools, reservations, idempotency keys, journal positions and shards.

Ledger.sales and every package above the ledger may import it.
"""
