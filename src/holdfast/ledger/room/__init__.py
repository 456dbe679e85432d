"""Queries on the waiting room: places, tickets, spent challenges. Every layer above the ledger may import it."""
