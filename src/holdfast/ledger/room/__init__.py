"""Queries on the waiting room: places, tickets, spent challenges. Every package above the ledger may import it."""
