"""How a figure is measured and reported: rounds, closed loops, progress, results. Imported by the rest of bench."""
