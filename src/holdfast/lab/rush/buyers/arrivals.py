"""The arrival time of each buyer, in seconds from the start. The same seed gives the same times."""

from math import sqrt
from random import Random

from holdfast.lab.scenarios.scenario import Shape


def arrivals(shape: Shape, count: int, over_seconds: float, seed: int) -> list[float]:
    """Sorted. Poisson arrivals are exactly `count`, so the last one may come slightly before or after the end."""
    chance = Random(f"arrivals {seed}")
    if shape is Shape.POISSON:
        return _poisson(chance, count, over_seconds)
    drawn = (chance.random() for _ in range(count))
    if shape is Shape.RAMP:
        # The density grows linearly from zero, so its integral is a square; the root is the inverse.
        return sorted(over_seconds * sqrt(part) for part in drawn)
    return sorted(over_seconds * part for part in drawn)


def _poisson(chance: Random, count: int, over_seconds: float) -> list[float]:
    if over_seconds <= 0:
        return [0.0] * count
    at, times = 0.0, []
    for _ in range(count):
        at += chance.expovariate(count / over_seconds)
        times.append(at)
    return times
