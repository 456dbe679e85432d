"""Holdfast sells a limited stock to a crowd that arrives all at once."""

__version__ = "0.1.0"
