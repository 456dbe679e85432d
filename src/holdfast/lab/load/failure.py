"""The error raised when a measurement cannot be trusted."""

from holdfast.errors import HoldfastError


class BenchFailed(HoldfastError):
    """A server under test failed, or the counts differ from the database."""
