"""How long to wait before the next attempt. Jitter spreads the retries of callers that failed together."""

import random


def jittered(pause: float, share: float) -> float:
    """The pause, plus or minus up to this share of it."""
    return pause * random.uniform(1 - share, 1 + share)


def exponential_ms(attempts: int, first_ms: int, longest_ms: int) -> int:
    """The pause after this many failed attempts: it doubles each time, up to the longest."""
    return round(jittered(min(first_ms << min(attempts - 1, 20), longest_ms), 0.5))
