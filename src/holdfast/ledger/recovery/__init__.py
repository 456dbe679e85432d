"""Restores what a ledger that went back in time lacks, as far as there are units for it.

Every layer above the ledger may import it.
"""
