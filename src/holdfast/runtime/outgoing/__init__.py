"""Calls to addresses chosen by others: allowed targets, timeouts, size limits.

Every layer above runtime may import it.
"""
