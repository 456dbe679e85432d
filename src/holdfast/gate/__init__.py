"""The gate: batches commands per pool, and an engine decides and stores them.

Bootstrap, settings, the use cases, http, the CLI and lab may import it. It imports the ledger, runtime and domain.
"""
