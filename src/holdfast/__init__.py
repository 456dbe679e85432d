"""Holdfast: inventory reservations and flash sales. docs/ARCHITECTURE.md describes the packages."""

__version__ = "0.1.0"
