"""Queries on messages to buyers: contacts, recipients and the log. Every layer above the ledger may import it."""
