"""The time at which a pool decides."""

# Processes read the same clock, but not in the same moment.
CLOCK_SKEW_MS = 2_000


def pool_time(now: int, decided_at: int) -> int:
    """Not before the pool's last decision, unless that is so far ahead that it was made by a clock that was wrong: then
    the pool's time would stand still, and no hold would end, until the right clock gets there."""
    return decided_at if now < decided_at <= now + CLOCK_SKEW_MS else now
