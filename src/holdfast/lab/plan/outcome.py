"""The figures of a simulated sale."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import ceil, log, sqrt

from msgspec import Struct

from holdfast.lab.plan.facts import Facts
from holdfast.lab.plan.simulation_runs import Run
from holdfast.lab.plan.snapshot import Snapshot

_PARTS = 400
_ALONE = ("attempts", "grants", "paid", "orders", "returns", "watches", "receipts", "looks", "work_s")


class Percentiles(Struct, frozen=True):
    p50: float
    p90: float
    p99: float
    max: float


class Span(Struct, frozen=True):
    """The median of several runs, and the range that contains four in five of them."""

    middle: float | None = None
    between: tuple[float, float] | None = None


class Outcome(Struct, frozen=True):
    """Times are in seconds from the opening. Waits count from joining or from the opening, whichever was later."""

    sold: int
    fifty_percent_after_s: float | None
    ninety_percent_after_s: float | None
    ninety_nine_percent_after_s: float | None
    ninety_nine_percent_between_s: tuple[float, float] | None
    """The range in four of five runs."""
    sold_out_after_s: float | None
    sold_out_between_s: tuple[float, float] | None
    ended_after_s: float
    longest_line: int
    most_trying_to_join: int
    called: int
    attempts: int
    attempts_per_second: float
    attempts_per_second_peak: float
    busiest_second: float
    """The maximum of purchases granted in one second, including repeats. Random arrivals raise it above the average."""
    joined_last_after_s: float
    admission_wait: Percentiles | None
    """Waiting times of admitted buyers."""
    slowest_purchase_ms: float


class Peaks(Struct, frozen=True):
    """The maximum in any second."""

    attempts: float
    grants: float
    paid: float
    orders: float
    returns: float
    watches: float
    receipts: float
    looks: float
    work_s: float
    wished: float
    """Requested joins and passes; `places` are those that the queue's capacity allowed."""
    places: float
    commands: float
    changes: float


def outcome_of(facts: Facts, run: Run) -> Outcome:
    snapshots, opens = run.snapshots, facts.opens_after_s
    last = snapshots[-1]

    def after_s(part: float) -> float | None:
        at_s = _sold_at(snapshots, facts, part)
        return None if at_s is None else round(max(at_s - opens, 0.0), 2)

    most, all_sold = _span(facts, run, 0.99), _span(facts, run, 1.0)
    return Outcome(
        sold=last.sold,
        fifty_percent_after_s=after_s(0.5),
        ninety_percent_after_s=after_s(0.9),
        ninety_nine_percent_after_s=most.middle,
        ninety_nine_percent_between_s=most.between,
        sold_out_after_s=all_sold.middle,
        sold_out_between_s=all_sold.between,
        ended_after_s=round(last.at_s - opens, 2),
        longest_line=max(snapshot.waiting for snapshot in snapshots),
        most_trying_to_join=max(snapshot.joining for snapshot in snapshots),
        called=last.called,
        attempts=sum(snapshot.attempts for snapshot in snapshots),
        attempts_per_second=_attempts_per_second(snapshots),
        attempts_per_second_peak=per_second(snapshots, lambda snapshot: snapshot.attempts),
        busiest_second=_busiest_second(facts, snapshots),
        joined_last_after_s=round(_when(snapshots, lambda m: m.joined, last.joined) or 0.0, 2),
        admission_wait=_waits(facts, snapshots) if last.admitted else None,
        slowest_purchase_ms=round(max(snapshot.behind_ms for snapshot in snapshots), 1),
    )


def _sold_at(snapshots: Sequence[Snapshot], facts: Facts, part: float) -> float | None:
    return _when(snapshots, lambda snapshot: snapshot.sold, ceil(facts.units * part - 1e-9))


def _span(facts: Facts, run: Run, part: float) -> Span:
    """Empty if most runs did not sell this share."""
    runs = run.ends or [run.snapshots]
    found = sorted(at_s for at_s in (_sold_at(snapshots, facts, part) for snapshots in runs) if at_s is not None)
    if len(found) <= len(runs) / 2:
        return Span()
    middle, low, high = (
        round(max(found[round(share * (len(found) - 1))] - facts.opens_after_s, 0.0), 2) for share in (0.5, 0.1, 0.9)
    )
    return Span(middle, (low, high))


def _attempts_per_second(snapshots: Sequence[Snapshot]) -> float:
    """The average rate from the first attempt to the last."""
    asked_at = [snapshot.at_s for snapshot in snapshots if snapshot.attempts]
    span_s = asked_at[-1] - asked_at[0] + snapshots[0].at_s if asked_at else 1.0
    return round(sum(snapshot.attempts for snapshot in snapshots) / span_s, 1)


def _busiest_second(facts: Facts, snapshots: Sequence[Snapshot]) -> float:
    """The expected maximum over the busy seconds, with Poisson arrivals and some duplicate requests. Overlapping
    seconds count as about three times as many."""
    most = per_second(snapshots, lambda snapshot: snapshot.grants)
    step_s = snapshots[0].at_s
    near = sum(snapshot.grants > 0.8 * most * step_s for snapshot in snapshots) * step_s
    twice = facts.attempts_each - 1
    most *= 1 + twice
    spread = most * (1 + 3 * twice) / (1 + twice)
    return round(most + sqrt(2 * spread * log(max(3 * near, 2.0))), 1)


def _when(snapshots: Sequence[Snapshot], count: Callable[[Snapshot], int], wanted: float) -> float | None:
    """The time at which the count reached this number."""
    index = bisect_left(snapshots, wanted, key=count)
    return snapshots[index].at_s if index < len(snapshots) else None


def _waits(facts: Facts, snapshots: Sequence[Snapshot]) -> Percentiles:
    """Waits of admitted buyers, quantile by quantile: they are a share of those called, who are the first to arrive."""
    last, waits = snapshots[-1], list[float]()
    for number in range(_PARTS):
        part = (number + 0.5) / _PARTS
        admitted_at = _when(snapshots, lambda snapshot: snapshot.admitted, part * last.admitted) or 0.0
        came_at = facts.arrived_at(part * last.called)
        waits.append(max(admitted_at - max(came_at, facts.opens_after_s), 0.0))
    waits.sort()
    return Percentiles(*(round(waits[min(int(part * _PARTS), _PARTS - 1)], 2) for part in (0.5, 0.9, 0.99, 1.0)))


def per_second(snapshots: Sequence[Snapshot], count: Callable[[Snapshot], float]) -> float:
    """The maximum within a second."""
    step_s = snapshots[0].at_s
    width = max(1, round(1 / step_s))
    counts = [count(snapshot) for snapshot in snapshots]
    running = most = sum(counts[:width])
    for index in range(width, len(counts)):
        running += counts[index] - counts[index - width]
        most = max(most, running)
    return round(most / (width * step_s), 2)


def peaks_of(snapshots: Sequence[Snapshot]) -> Peaks:
    alone = {
        name: per_second(snapshots, lambda snapshot, name=name: getattr(snapshot, name))  # type: ignore[misc]
        for name in _ALONE
    }
    return Peaks(
        **alone,
        wished=per_second(snapshots, lambda snapshot: snapshot.came + snapshot.admissions),
        places=per_second(snapshots, lambda snapshot: snapshot.joins + snapshot.admissions),
        commands=per_second(snapshots, lambda snapshot: snapshot.grants + snapshot.paid),
        # In Redis mode each of these is a journal entry: reserved, settling, sold, returned.
        changes=per_second(
            snapshots, lambda snapshot: snapshot.grants + snapshot.paid + snapshot.orders + snapshot.returns
        ),
    )
