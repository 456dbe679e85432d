"""The ledger mark: how far the ledger was last seen, so that a ledger that went back in time is detected.

The ledger and every layer above may import it.
"""
