"""The business rules as pure code: no I/O, no await, no clock. Every package may import it; it imports only errors."""
