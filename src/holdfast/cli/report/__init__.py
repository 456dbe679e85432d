"""The report of a sale: an HTML page without scripts, a summary, rows for analysis. Imported by commands."""
