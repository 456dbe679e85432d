"""Queries on recorded events: history, the outbox, webhooks and their deliveries.

Every package above the ledger may import it.
"""
