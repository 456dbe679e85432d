"""When each of a crowd comes, in seconds from the beginning. The same seed makes the same crowd."""

from math import sqrt
from random import Random

from holdfast.rush.scenario import Shape


def arrivals(shape: Shape, count: int, over_seconds: float, seed: int) -> list[float]:
    """In order. Poisson arrivals are as many as wanted, so the last may come a little before or after the end."""
    chance = Random(f"arrivals {seed}")
    if shape is Shape.POISSON:
        return _poisson(chance, count, over_seconds)
    drawn = (chance.random() for _ in range(count))
    if shape is Shape.RAMP:
        # The density grows from nothing, evenly; its integral is a square, and this its inverse.
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
