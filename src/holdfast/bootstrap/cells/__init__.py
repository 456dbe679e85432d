"""Cells: whole sets of services with stores of their own, and the map that says which sells what (docs/CELLS.md)."""
