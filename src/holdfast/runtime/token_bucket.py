"""Token buckets: a burst of requests, and a steady rate after that.

A bucket is stored as the time at which it will be full again (the generic cell rate algorithm): nothing has to be
refilled, an idle bucket can be forgotten, and it takes one number per address or buyer.
"""

from math import ceil, floor

from msgspec import Struct


class Policy(Struct, frozen=True, cache_hash=True):
    """`burst` at once, and then one more every `every_ms`."""

    name: str
    burst: int
    every_ms: float

    @property
    def window_seconds(self) -> int:
        """How long an empty bucket takes to fill."""
        return ceil(self.burst * self.every_ms / 1_000)

    @property
    def header(self) -> str:
        """`RateLimit-Policy`, as draft-ietf-httpapi-ratelimit-headers has it."""
        return f'"{self.name}";q={self.burst};w={self.window_seconds}'


def left_header(policy: Policy, remaining: int, next_ms: int) -> str:
    """`RateLimit`: how many are left, and in how many seconds there will be more."""
    return f'"{policy.name}";r={remaining};t={ceil(next_ms / 1_000)}'


class Taken(Struct, frozen=True):
    is_allowed: bool
    # When the bucket is full again: the state to keep until then, and to pass in next time.
    full_at: float
    remaining: int
    # Until the next token, which is when a refused request may be tried again.
    next_ms: int


def take(policy: Policy, full_at: float, now: int, tokens: int = 1) -> Taken:
    """`full_at` is 0 for a caller without a bucket. A refused request takes no token."""
    # Comparisons, because every request of a buyer comes through here and a call takes longer.
    start = max(now, full_at)
    # Written so that rounding never costs a full bucket its last token.
    is_allowed = start - now <= (policy.burst - tokens) * policy.every_ms
    kept = start + tokens * policy.every_ms if is_allowed else start
    # Large clock values leave few digits for fractions of a token, so almost a whole token counts as one.
    left = floor(policy.burst - (kept - now) / policy.every_ms + 1e-6)
    remaining = max(0, left)
    # The bucket holds one token more each `every_ms`; a refused request waits until it holds enough.
    next_left = remaining + 1 if remaining < policy.burst else policy.burst
    wait_ms = kept - now - (policy.burst - (next_left if is_allowed else tokens)) * policy.every_ms
    return Taken(is_allowed, kept, remaining, ceil(wait_ms) if wait_ms > 0 else 0)


def is_idle(full_at: float, now: int) -> bool:
    """Whether a bucket is full, and need not be kept."""
    return full_at <= now
