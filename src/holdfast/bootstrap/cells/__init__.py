"""Cells: sets of services with their own stores, and the map from a sale to its cell (docs/CELLS.md).

Every layer above bootstrap may import it.
"""
