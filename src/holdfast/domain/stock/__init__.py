"""The rules of stock: pools, reservations, commands, outcomes and the rulebook that decides a batch.

Every package may import it.
"""
