"""Queries on service keys, operators, approvals and console sessions. Every layer above the ledger may import it."""
