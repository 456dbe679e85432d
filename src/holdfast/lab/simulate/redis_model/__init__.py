"""A Redis in this process that runs the real function library, on a clock that its caller sets. Imported by simulate.

It implements the commands that the library and the Redis gate use, and replies as Redis does: `tests/simulate` sends
the same calls to it and to a real Valkey, and compares replies and keys.
"""
