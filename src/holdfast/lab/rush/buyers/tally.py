"""A worker's counters, in bins of a tenth of a second, for the live view and the charts.

Each process sends its counts since its last message, so the sum of all messages is the total.
"""

from typing import TypeVar

from msgspec import Struct

from holdfast.lab.load.latency import Histogram
from holdfast.lab.rush.buyers.actions import Step

T = TypeVar("T")

BIN_S = 0.1
# The step that waits for the gate's decision.
ATTEMPT = Step.PURCHASE


class Tally(Struct):
    series: dict[str, dict[int, int]] = {}
    """Counts by name, then by bin."""
    latencies: dict[str, Histogram] = {}
    attempts: dict[int, Histogram] = {}
    """Latencies of purchases, by second."""
    statuses: dict[str, int] = {}
    sources: dict[str, int] = {}
    """Responses by step, source and status."""

    def count(self, name: str, at_s: float, number: int = 1) -> None:
        bins = self.series.setdefault(name, {})
        bin_ = int(at_s / BIN_S)
        bins[bin_] = bins.get(bin_, 0) + number

    def record(self, step: str, at_s: float, seconds: float) -> None:
        self.latencies.setdefault(step, Histogram()).record(seconds)
        if step is ATTEMPT:
            self.attempts.setdefault(int(at_s), Histogram()).record(seconds)

    def total(self, name: str) -> int:
        return sum(self.series.get(name, {}).values())

    def totals(self, prefix: str) -> dict[str, int]:
        """The totals of all series with this prefix, by the rest of their names, largest first."""
        found = {name.removeprefix(prefix): self.total(name) for name in self.series if name.startswith(prefix)}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def add(self, other: "Tally") -> None:
        for name, bins in other.series.items():
            _add(self.series.setdefault(name, {}), bins)
        for step, histogram in other.latencies.items():
            self.latencies.setdefault(step, Histogram()).add(histogram)
        for second, histogram in other.attempts.items():
            self.attempts.setdefault(second, Histogram()).add(histogram)
        _add(self.statuses, other.statuses)
        _add(self.sources, other.sources)

    def histogram(self, step: str) -> Histogram:
        return self.latencies.get(step) or Histogram()


def _add(mine: dict[T, int], theirs: dict[T, int]) -> None:
    for key, count in theirs.items():
        mine[key] = mine.get(key, 0) + count
