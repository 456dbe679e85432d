"""A batch of commands becomes a decision."""
