"""A small sale with simulated buyers, to watch and to take part in. Imported by commands."""
