"""Authentication: buyers' tokens, service keys, console sessions, receipts. Bootstrap and http may import it."""
