"""Queries on settlements, payments, refunds, wallets and mismatches between them.

Every layer above the ledger may import it.
"""
