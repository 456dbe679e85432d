"""Authentication: buyers' tokens, service keys, operators, console sessions, receipts.

Every layer above may import it.
"""
