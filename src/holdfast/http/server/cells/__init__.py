"""Serves several cells: one application for each, and a router above them (docs/CELLS.md).

Only http.server may import it.
"""
