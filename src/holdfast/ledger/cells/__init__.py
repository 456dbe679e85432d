"""Queries on the map of cells, and on what a cell knows about itself. Bootstrap and above may import it."""
