"""A measurement that cannot be trusted is no measurement."""

from holdfast.errors import HoldfastError


class BenchFailed(HoldfastError):
    """A server under test failed, or what was counted is not what the database says."""
