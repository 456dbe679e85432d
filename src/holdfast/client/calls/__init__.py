# Generated from the endpoint table by `make docs`. Do not edit.
"""Each operation as a function that describes the call; a client sends it."""
