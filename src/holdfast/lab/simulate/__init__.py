"""The whole system in one process on a virtual clock, from a seed, with faults; the invariants are checked all along.

Read `run.py` first. Nothing but the command line and the tests imports it.
"""
