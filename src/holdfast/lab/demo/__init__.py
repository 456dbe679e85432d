"""A small sale with simulated buyers, to look at and to buy in. Imported by commands."""
