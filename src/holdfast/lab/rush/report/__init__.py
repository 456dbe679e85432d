"""A finished rush as figures, charts, an HTML page, and the live view of a running one. Imported by commands."""
