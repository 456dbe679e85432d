"""Alternative control laws, to compare with the pace."""

from math import inf

from msgspec.structs import replace

from holdfast.domain.room.pace import LEAST_RATE, Pace, Strain, aimd


def aimd_without_knee(pace: Pace, strain: Strain, elapsed_ms: int, now: int) -> Pace:
    return replace(aimd(replace(pace, knee_per_second=inf), strain, elapsed_ms, now), knee_per_second=inf)


def gradient(pace: Pace, strain: Strain, elapsed_ms: int, _now: int) -> Pace:
    """Each second the rate becomes rate ÷ pressure, changed by at most a half or an eighth, as gradient limits do."""
    factor = min(1.125, max(0.5, 1 / max(strain.pressure, 0.01)))
    rate = pace.rate_per_second * factor ** (elapsed_ms / 1_000)
    return replace(pace, rate_per_second=min(pace.target_per_second, max(rate, pace.target_per_second * LEAST_RATE)))


def constant(pace: Pace, _strain: Strain, _elapsed_ms: int, _now: int) -> Pace:
    """No control, as a baseline."""
    return pace
