"""Other laws than the one the pace goes by, to compare them with it."""

from math import inf

from msgspec.structs import replace

from holdfast.domain.pace import LEAST_RATE, Pace, Strain, aimd


def aimd_without_knee(pace: Pace, strain: Strain, elapsed_ms: int, now: int) -> Pace:
    return replace(aimd(replace(pace, knee_per_second=inf), strain, elapsed_ms, now), knee_per_second=inf)


def gradient(pace: Pace, strain: Strain, elapsed_ms: int, _now: int) -> Pace:
    """Each second the rate goes to rate ÷ pressure, at most by half or by an eighth, as latency-following limits do."""
    factor = min(1.125, max(0.5, 1 / max(strain.pressure, 0.01)))
    rate = pace.rate_per_second * factor ** (elapsed_ms / 1_000)
    return replace(pace, rate_per_second=min(pace.target_per_second, max(rate, pace.target_per_second * LEAST_RATE)))


def constant(pace: Pace, _strain: Strain, _elapsed_ms: int, _now: int) -> Pace:
    """Nothing at all: the control that shows what the others are good for."""
    return pace
