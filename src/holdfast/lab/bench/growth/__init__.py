"""How figures change as more is waiting, requested, held or queued. Imported by commands and document."""
