"""Erases a buyer: their ID becomes a pseudonym in the ledger and its history, and the rest is deleted (ADR 20).

Every layer above the ledger may import it.
"""
