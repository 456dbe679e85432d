"""The hash chain over the events, and its checkpoints. The ledger and every layer above may import it."""
