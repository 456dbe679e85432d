"""Queries on sales, their lists, restocks and shortages. Every layer above the ledger may import it."""
