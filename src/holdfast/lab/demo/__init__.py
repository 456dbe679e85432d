"""A small sale with simulated buyers, to watch and to buy in. Imported by commands."""
