"""The state of a simulated sale at one step."""

from msgspec import Struct


class Snapshot(Struct, frozen=True, gc=False):
    """The state at the end of a step, and the events in it (`came` and below)."""

    at_s: float
    arrived: int
    joined: int
    called: int
    admitted: int
    waiting: int
    joining: int
    """Buyers who could not join yet, because too many are trying at once."""
    available: int
    held: int
    sold: int
    behind_ms: float
    came: int
    joins: int
    admissions: int
    attempts: int
    grants: int
    paid: int
    orders: int
    returns: int
    watches: int
    """Polls of a payment."""
    receipts: int
    """Reads of an order after payment."""
    looks: int
    work_s: float
