"""One command line."""

from holdfast.cli.app import main

__all__ = ["main"]
