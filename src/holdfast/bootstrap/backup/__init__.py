"""Backups: the ledger and the files of the data directory in one archive, taken while servers run."""
