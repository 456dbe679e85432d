"""Compares the ledger with the buyers' records. Pure; imported by the rest of rush."""
