"""What is counted while the crowd is at it: by tenths of a second, so that plots and the live view come of the same.

A tally travels: each process sends what it counted since it last did, and the sum of all is what happened.
"""

from typing import TypeVar

from msgspec import Struct

from holdfast.rush.histogram import Histogram, bucket_of, sum_of
from holdfast.rush.wishes import Step

T = TypeVar("T")

BIN_S = 0.1
# Steps that wait for the gate to decide about stock.
ATTEMPT = Step.PURCHASE


class Latencies(Struct):
    counts: dict[int, int] = {}
    largest: int = 0


class Tally(Struct):
    series: dict[str, dict[int, int]] = {}
    """By name, then by bin: how many."""
    latencies: dict[str, Latencies] = {}
    attempts: dict[int, Latencies] = {}
    """Of purchases, by second."""
    statuses: dict[str, int] = {}

    def count(self, name: str, at_s: float, number: int = 1) -> None:
        bins = self.series.setdefault(name, {})
        bin_ = int(at_s / BIN_S)
        bins[bin_] = bins.get(bin_, 0) + number

    def note(self, step: Step, at_s: float, seconds: float) -> None:
        """That this step took so long, from when it was due."""
        microseconds = max(int(seconds * 1e6), 0)
        bucket = bucket_of(microseconds)
        _note(self.latencies.setdefault(step, Latencies()), bucket, microseconds)
        if step is ATTEMPT:
            _note(self.attempts.setdefault(int(at_s), Latencies()), bucket, microseconds)

    def total(self, name: str) -> int:
        return sum(self.series.get(name, {}).values())

    def names(self, prefix: str) -> dict[str, int]:
        """The totals of all series whose names begin so, by the rest of their names."""
        found = {name.removeprefix(prefix): self.total(name) for name in self.series if name.startswith(prefix)}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def add(self, other: "Tally") -> None:
        for name, bins in other.series.items():
            _add(self.series.setdefault(name, {}), bins)
        for step, latencies in other.latencies.items():
            _add_latencies(self.latencies.setdefault(step, Latencies()), latencies)
        for second, latencies in other.attempts.items():
            _add_latencies(self.attempts.setdefault(second, Latencies()), latencies)
        _add(self.statuses, other.statuses)

    def histogram(self, step: str) -> Histogram:
        found = self.latencies.get(step, Latencies())
        return Histogram(dict(found.counts), found.largest)

    def whole(self) -> Histogram:
        return sum_of(self.histogram(step) for step in self.latencies)


def _add(mine: dict[T, int], theirs: dict[T, int]) -> None:
    for key, count in theirs.items():
        mine[key] = mine.get(key, 0) + count


def _add_latencies(mine: Latencies, theirs: Latencies) -> None:
    _add(mine.counts, theirs.counts)
    mine.largest = max(mine.largest, theirs.largest)


def _note(latencies: Latencies, bucket: int, microseconds: int) -> None:
    latencies.counts[bucket] = latencies.counts.get(bucket, 0) + 1
    latencies.largest = max(latencies.largest, microseconds)
