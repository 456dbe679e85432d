"""The ledger mark: how far the ledger was seen, so that a ledger that went back in time is noticed.

The ledger and every layer above may import it.
"""
