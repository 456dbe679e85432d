"""Writes docs/BENCHMARKS.md and its plots from measured figures. Imported by `bench all`."""
