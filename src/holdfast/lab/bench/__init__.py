"""Measures Holdfast against baselines, in one run, on one machine. Imported by commands."""
