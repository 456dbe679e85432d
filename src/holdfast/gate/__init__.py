"""The gate: batches commands per pool; an engine decides and stores them.

Every layer above may import it. It imports the ledger, runtime and domain.
"""
