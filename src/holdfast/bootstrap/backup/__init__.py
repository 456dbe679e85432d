"""Backups: one archive of the ledger and the data directory, taken while servers run. The CLI may import it."""
