"""Queries on recorded events: history, the outbox, webhooks and their deliveries.

Every layer above the ledger may import it.
"""
