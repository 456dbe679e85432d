"""How figures change with the number of pools, holds and people in the queue, and with concurrency.

Imported by bench and commands.
"""
