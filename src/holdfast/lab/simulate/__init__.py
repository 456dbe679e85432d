"""Runs the whole system in one process on a virtual clock, from a seed, with faults, and checks invariants throughout.

Read `run.py` first. Only commands may import it.
"""
