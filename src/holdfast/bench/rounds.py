"""Every figure is measured in several short rounds, and the rounds of all figures are interleaved.

A shared machine has fast and slow minutes. Measured one after the other, two figures may meet different minutes and
their ratio would tell about the machine; in turns they meet the same ones, and the median forgets the odd bad round.
"""

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from holdfast.bench.progress import Progress

ROUNDS_MAX = 3
# A round shorter than this would mostly measure its own start.
ROUND_LEAST_S = 1.0


class Latency(Struct, frozen=True):
    p50_ms: float
    p99_ms: float


class Round(Struct, frozen=True):
    per_second: float
    latency: Latency | None = None


class Figure(Struct, frozen=True):
    name: str
    about: str
    measure: Callable[[float], Round]
    """Takes the seconds a round lasts, and has checked the result before it returns it."""


class Measured(Struct, frozen=True):
    about: str
    rounds: list[float]
    latency: Latency | None = None

    @property
    def per_second(self) -> float:
        return round(median(self.rounds), 1)


def rounds_in(seconds: float) -> int:
    return max(1, min(ROUNDS_MAX, int(seconds / ROUND_LEAST_S)))


def measure(figures: Sequence[Figure], seconds: float, progress: Progress) -> dict[str, Measured]:
    """Measure each figure for `seconds` in all."""
    count = rounds_in(seconds)
    found: dict[str, list[Round]] = {figure.name: [] for figure in figures}
    for number in range(1, count + 1):
        for figure in figures:
            with progress.step(f"{figure.name}, round {number} of {count}", seconds / count):
                found[figure.name].append(figure.measure(seconds / count))
    return {figure.name: _measured(figure, found[figure.name]) for figure in figures}


def _measured(figure: Figure, rounds: list[Round]) -> Measured:
    known = [r.latency for r in rounds if r.latency is not None]
    latency = None
    if known:
        latency = Latency(_middle([each.p50_ms for each in known]), _middle([each.p99_ms for each in known]))
    return Measured(figure.about, [round(r.per_second, 1) for r in rounds], latency)


def _middle(values: list[float]) -> float:
    return round(median(values), 2)


def latency_of(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Latency(*(round(ordered[int(len(ordered) * share)] * 1000, 3) for share in (0.5, 0.99)))
