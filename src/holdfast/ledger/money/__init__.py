"""Queries on settlements, payments, refunds, wallets and mismatches between them.

Every package above the ledger may import it.
"""
