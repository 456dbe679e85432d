"""Queries on the map of cells, and on what a cell knows of itself. Bootstrap and above may import it."""
