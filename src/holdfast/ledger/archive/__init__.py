"""Archives of past months as Parquet files, and what is then deleted. Every layer above the ledger may import it."""
