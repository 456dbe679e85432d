"""The checks of `holdfast verify`: find inconsistencies in a ledger. The CLI and lab may import it."""
