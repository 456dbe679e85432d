"""What proves that a history is complete and unchanged: Merkle trees. No I/O."""
