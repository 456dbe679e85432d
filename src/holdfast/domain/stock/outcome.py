"""Every answer of the gate: a closed set, in order of precedence.

When several reasons apply to one command, every engine returns the one that comes first here.
"""

from enum import StrEnum


class Outcome(StrEnum):
    # Answers to a reservation attempt.
    REPLAYED = "replayed"
    KEY_REUSED = "key_reused"
    POOL_NOT_FOUND = "pool_not_found"
    NOT_READY = "not_ready"
    NOT_OPEN = "not_open"
    PAUSED = "paused"
    ENDED = "ended"
    TIER_REQUIRED = "tier_required"
    BUYER_LIMIT = "buyer_limit"
    HOLD_BUDGET = "hold_budget"
    INSUFFICIENT = "insufficient"
    ALL_HELD = "all_held"
    SOLD_OUT = "sold_out"
    RESERVED = "reserved"
    # Answers to a move of a reservation or of stock.
    NOT_FOUND = "not_found"
    ALREADY = "already"
    ILLEGAL = "illegal"
    EXTENSION_LIMIT = "extension_limit"
    MOVED = "moved"

    @property
    def is_transient(self) -> bool:
        """Whether retrying the same command unchanged may get a different answer."""
        return _IS_TRANSIENT[self]

    @property
    def is_success(self) -> bool:
        return self in _SUCCESSES


_SUCCESSES = frozenset({Outcome.REPLAYED, Outcome.RESERVED, Outcome.ALREADY, Outcome.MOVED})

_IS_TRANSIENT = {
    Outcome.REPLAYED: False,
    Outcome.KEY_REUSED: False,
    Outcome.POOL_NOT_FOUND: False,
    Outcome.NOT_READY: True,
    Outcome.NOT_OPEN: True,
    Outcome.PAUSED: True,
    Outcome.ENDED: False,
    Outcome.TIER_REQUIRED: False,
    Outcome.BUYER_LIMIT: False,
    Outcome.HOLD_BUDGET: False,
    Outcome.INSUFFICIENT: True,
    Outcome.ALL_HELD: True,
    Outcome.SOLD_OUT: False,
    Outcome.RESERVED: False,
    Outcome.NOT_FOUND: False,
    Outcome.ALREADY: False,
    Outcome.ILLEGAL: False,
    Outcome.EXTENSION_LIMIT: False,
    Outcome.MOVED: False,
}
