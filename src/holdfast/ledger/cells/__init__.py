"""Queries on the map of cells, and on a cell's own identity and load. Bootstrap and above may import it."""
