"""Measured against baselines, in one run, on the same machine."""
