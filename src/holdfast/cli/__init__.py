"""The `holdfast` command line. Only lab may import it."""

from holdfast.cli.app import main

__all__ = ["main"]
