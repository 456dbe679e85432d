"""Read replicas: reads that the primary need not serve, and that never miss what was known when they began.

Every layer above the ledger may import it.
"""
