"""Queries on sales, their lists, restocks and shortages. Every package above the ledger may import it."""
