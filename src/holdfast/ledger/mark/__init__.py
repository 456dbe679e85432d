"""The ledger mark: how far the ledger was seen, to notice when it goes back. Bootstrap and the CLI import it."""
