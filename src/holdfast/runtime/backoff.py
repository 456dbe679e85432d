"""How long to wait before the next attempt. Jitter keeps those that failed together from returning together."""

import random


def jittered(pause: float, share: float) -> float:
    """Up to this share shorter or longer."""
    return pause * random.uniform(1 - share, 1 + share)


def exponential_ms(attempts: int, first_ms: int, longest_ms: int) -> int:
    """After this many failed attempts: twice as long each time, within limits."""
    return round(jittered(min(first_ms << min(attempts - 1, 20), longest_ms), 0.5))
