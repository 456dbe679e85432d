"""Read replicas: they take reads off the primary, and never miss what was known when a read began.

Every layer above the ledger may import it.
"""
