"""How a simulated sale stands at a moment."""

from msgspec import Struct


class Moment(Struct, frozen=True, gc=False):
    """How it stands at the end of a step, and what was done in it (`came` and all below)."""

    at_s: float
    arrived: int
    joined: int
    called: int
    admitted: int
    waiting: int
    joining: int
    """Those who could not join yet, because too many want to at once."""
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
    """Looks at how one's payment stands."""
    receipts: int
    """Looks at one's orders, when it is done."""
    looks: int
    work_s: float
