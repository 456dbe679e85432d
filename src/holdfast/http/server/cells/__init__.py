"""Serving several cells: one application for each, and a router above them (docs/CELLS.md)."""
