"""Who was refused, when and why: recorded off the hot path, kept in compact segments, searched on demand."""
