"""The tables of every subject and nothing else: the bottom layer of the ledger.

All queries, and layers above the ledger that read tables directly, may import it.
"""
