"""How a figure is measured and reported: rounds, closed loops, progress, results. The bottom of bench."""
