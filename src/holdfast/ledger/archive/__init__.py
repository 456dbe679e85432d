"""Archives of ended months: Parquet files beside the ledger, and what is dropped once it is in them."""
