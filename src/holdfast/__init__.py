"""Holdfast: inventory reservations and flash sales. docs/ARCHITECTURE.md lists the packages and what each imports."""

__version__ = "0.1.0"
