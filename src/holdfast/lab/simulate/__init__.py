"""The whole system in one process on a virtual clock, from a seed, with faults; invariants are checked throughout.

Read `run.py` first. Only commands may import it.
"""
