"""What came of a simulated sale, in the numbers that people ask for."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import ceil, log, sqrt

from msgspec import Struct

from holdfast.plan.facts import Facts
from holdfast.plan.moment import Moment
from holdfast.plan.running import Run

_PARTS = 400
_ALONE = ("attempts", "grants", "paid", "orders", "returns", "watches", "receipts", "looks", "work_s")


class Percentiles(Struct, frozen=True):
    p50: float
    p90: float
    p99: float
    max: float


class Span(Struct, frozen=True):
    """The middle of what chance may make of it, and between which two it is four times of five."""

    middle: float | None = None
    between: tuple[float, float] | None = None


class Outcome(Struct, frozen=True):
    """Times are in seconds from the opening; waits from joining, or from the opening if that was later."""

    sold: int
    fifty_percent_after_s: float | None
    ninety_percent_after_s: float | None
    ninety_nine_percent_after_s: float | None
    ninety_nine_percent_between_s: tuple[float, float] | None
    """Four times of five, where chance decides."""
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
    """Purchases granted within a second, repeats among them, at most: with what chance adds, for people do not come one
    after the other at even distances."""
    joined_last_after_s: float
    let_in: Percentiles | None
    """How long those waited who were let in."""
    slowest_purchase_ms: float


class Peaks(Struct, frozen=True):
    """The most in any second."""

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
    """Those who want a place or their pass; `places` are as many of them as the line let through."""
    places: float
    commands: float
    changes: float


def outcome_of(facts: Facts, run: Run) -> Outcome:
    moments, opens = run.moments, facts.opens_after_s
    last = moments[-1]

    def after_s(part: float) -> float | None:
        at_s = _sold_at(moments, facts, part)
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
        longest_line=max(moment.waiting for moment in moments),
        most_trying_to_join=max(moment.joining for moment in moments),
        called=last.called,
        attempts=sum(moment.attempts for moment in moments),
        attempts_per_second=_attempts_per_second(moments),
        attempts_per_second_peak=per_second(moments, lambda moment: moment.attempts),
        busiest_second=_busiest_second(facts, moments),
        joined_last_after_s=round(_when(moments, lambda m: m.joined, last.joined) or 0.0, 2),
        let_in=_waits(facts, moments) if last.admitted else None,
        slowest_purchase_ms=round(max(moment.behind_ms for moment in moments), 1),
    )


def _sold_at(moments: Sequence[Moment], facts: Facts, part: float) -> float | None:
    return _when(moments, lambda moment: moment.sold, ceil(facts.units * part - 1e-9))


def _span(facts: Facts, run: Run, part: float) -> Span:
    """Nothing, if so many were not sold in most of the runs."""
    runs = run.ends or [run.moments]
    found = sorted(at_s for at_s in (_sold_at(moments, facts, part) for moments in runs) if at_s is not None)
    if len(found) <= len(runs) / 2:
        return Span()
    middle, low, high = (
        round(max(found[round(share * (len(found) - 1))] - facts.opens_after_s, 0.0), 2) for share in (0.5, 0.1, 0.9)
    )
    return Span(middle, (low, high))


def _attempts_per_second(moments: Sequence[Moment]) -> float:
    """From the first to the last of them."""
    asked_at = [moment.at_s for moment in moments if moment.attempts]
    span_s = asked_at[-1] - asked_at[0] + moments[0].at_s if asked_at else 1.0
    return round(sum(moment.attempts for moment in moments) / span_s, 1)


def _busiest_second(facts: Facts, moments: Sequence[Moment]) -> float:
    """Of so many seconds with about so many purchases each, the most that is to be expected in one, if people come by
    chance (Poisson), and some ask twice; seconds overlap, which is as if there were about three times as many."""
    most = per_second(moments, lambda moment: moment.grants)
    step_s = moments[0].at_s
    near = sum(moment.grants > 0.8 * most * step_s for moment in moments) * step_s
    twice = facts.attempts_each - 1
    most *= 1 + twice
    spread = most * (1 + 3 * twice) / (1 + twice)
    return round(most + sqrt(2 * spread * log(max(3 * near, 2.0))), 1)


def _when(moments: Sequence[Moment], count: Callable[[Moment], int], wanted: float) -> float | None:
    """At which moment so many had."""
    index = bisect_left(moments, wanted, key=count)
    return moments[index].at_s if index < len(moments) else None


def _waits(facts: Facts, moments: Sequence[Moment]) -> Percentiles:
    """Those let in are a share of those called, who are the first of those who came: part by part, when was each?"""
    last, waits = moments[-1], list[float]()
    for number in range(_PARTS):
        part = (number + 0.5) / _PARTS
        let_in_at = _when(moments, lambda moment: moment.admitted, part * last.admitted) or 0.0
        came_at = facts.came_at(part * last.called)
        waits.append(max(let_in_at - max(came_at, facts.opens_after_s), 0.0))
    waits.sort()
    return Percentiles(*(round(waits[min(int(part * _PARTS), _PARTS - 1)], 2) for part in (0.5, 0.9, 0.99, 1.0)))


def per_second(moments: Sequence[Moment], count: Callable[[Moment], float]) -> float:
    """The most within a second."""
    step_s = moments[0].at_s
    width = max(1, round(1 / step_s))
    counts = [count(moment) for moment in moments]
    running = most = sum(counts[:width])
    for index in range(width, len(counts)):
        running += counts[index] - counts[index - width]
        most = max(most, running)
    return round(most / (width * step_s), 2)


def peaks_of(moments: Sequence[Moment]) -> Peaks:
    alone = {
        name: per_second(moments, lambda moment, name=name: getattr(moment, name))  # type: ignore[misc]
        for name in _ALONE
    }
    return Peaks(
        **alone,
        wished=per_second(moments, lambda moment: moment.came + moment.admissions),
        places=per_second(moments, lambda moment: moment.joins + moment.admissions),
        commands=per_second(moments, lambda moment: moment.grants + moment.paid),
        # In Redis mode each is an entry of the journal: reserved, taken to be paid, sold, returned.
        changes=per_second(moments, lambda moment: moment.grants + moment.paid + moment.orders + moment.returns),
    )
