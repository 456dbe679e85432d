"""The checks of `holdfast verify`: find inconsistencies in a ledger. Every layer above may import it."""
