"""docs/BENCHMARKS.md and its plots, from what was measured."""
