"""Merkle trees, which prove that a history is complete and unchanged. Every package may import it."""
