"""The ledger of a run, what may happen to it, and the operator who recovers it."""
