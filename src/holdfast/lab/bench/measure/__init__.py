"""Measures and reports a figure: rounds, closed loops, progress, results. Imported by the rest of bench."""
