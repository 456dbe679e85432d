"""The report of a sale: an HTML page without scripts, a summary, and rows for analysis. Only commands may import it."""
