"""Every figure is measured in several short rounds, and the rounds of all figures are interleaved.

A shared machine has fast and slow minutes. Figures measured one after the other may meet different minutes, and their
ratio would reflect the machine; interleaved they meet the same ones, and the median drops an occasional bad round.
"""

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.load.latency import Latency

ROUNDS_MAX = 3
# A shorter round would mostly measure its own start.
ROUND_LEAST_S = 1.0


class Round(Struct, frozen=True):
    per_second: float
    latency: Latency | None = None


class Figure(Struct, frozen=True):
    name: str
    about: str
    measure: Callable[[float], Round]
    """Takes the length of a round in seconds, and verifies the result before returning it."""


class Measured(Struct, frozen=True):
    about: str
    rounds: list[float]
    latency: Latency | None = None

    @property
    def per_second(self) -> float:
        return round(median(self.rounds), 1)

    @property
    def best(self) -> float:
        return max(self.rounds)


def rounds_in(seconds: float) -> int:
    return max(1, min(ROUNDS_MAX, int(seconds / ROUND_LEAST_S)))


def measure(figures: Sequence[Figure], seconds: float, progress: Progress) -> dict[str, Measured]:
    """Measures each figure for `seconds` in total."""
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
