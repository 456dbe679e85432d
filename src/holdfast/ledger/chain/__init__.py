"""The chain over the events, and its checkpoints. The ledger's subjects and every package above may import it."""
