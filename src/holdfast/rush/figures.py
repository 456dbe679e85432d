"""What is said of a rush in numbers."""

from itertools import accumulate
from typing import Any

import msgspec

from holdfast.rush.fairness import Fairness, fairness
from holdfast.rush.rehearsal import Rushed
from holdfast.rush.scenario import body_of
from holdfast.rush.tally import BIN_S
from holdfast.rush.testimony import Testimony
from holdfast.rush.visitor import Offer

_POINTS = 120


def per_second(bins: dict[int, int], width_s: float = 1.0) -> list[tuple[float, float]]:
    """A rate over time: the middle of each slice, and how many per second fell into it. Empty slices are zeros."""
    if not bins:
        return []
    step = max(1, round(width_s / BIN_S))
    sums: dict[int, int] = {}
    for bin_, count in bins.items():
        sums[bin_ // step] = sums.get(bin_ // step, 0) + count
    first, last = min(0, *sums), max(sums)
    return [((n + 0.5) * step * BIN_S, sums.get(n, 0) / (step * BIN_S)) for n in range(first, last + 1)]


def peak(bins: dict[int, int]) -> float:
    return max((rate for _, rate in per_second(bins)), default=0.0)


def busiest_second(bins: dict[int, int]) -> int:
    """The most within any second, wherever it begins."""
    width = round(1 / BIN_S)
    return max((sum(bins.get(first + more, 0) for more in range(width)) for first in bins), default=0)


Pairs = list[tuple[float, float]]


def came_and_placed(testimonies: list[Testimony]) -> Pairs:
    """When people joined, and the places they were given."""
    places = (place for one in testimonies for place in one.places if place.position is not None)
    return [(place.answered_at, float(place.position or 0)) for place in places]


def placed_and_served(testimonies: list[Testimony]) -> Pairs:
    """The places that people were given, and when they were let in: who is called together comes as they look."""
    places = (place for one in testimonies for place in one.places if place.position is not None and place.admitted_at)
    return [(float(place.position or 0), place.admitted_at) for place in places]


def asked_and_granted(testimonies: list[Testimony]) -> Pairs:
    """Where there is no line: when they asked, and when they were granted it."""
    return [(grant.asked_at, grant.answered_at) for one in testimonies for grant in one.grants[:1]]


def sold_after_s(rushed: Rushed, part: float = 1.0) -> float | None:
    """How long after the opening so many were sold. The books know it best: who looks waits for an answer, and under
    load for long."""
    opened_at = _opened_at(rushed)
    if not rushed.sold or not rushed.samples:
        seen = (sample.asked_at for sample in rushed.samples if sample.sold >= part * sample.total_units > 0)
        return next((round(at - opened_at, 2) for at in seen), None)
    wanted = part * rushed.samples[-1].total_units
    sums = accumulate(units for _, units in rushed.sold)
    made = (at for (at, _), sold in zip(rushed.sold, sums, strict=True) if sold >= wanted)
    return next((round(max(at - opened_at, 0.0), 2) for at in made), None)


def _opened_at(rushed: Rushed) -> float:
    return max(rushed.starts_at, min(offer.opens_at for offer in rushed.offers))


def wait_s(testimonies: list[Testimony], offers: list[Offer]) -> dict[str, float] | None:
    """Of those who were let in: from asking for a place, or from the opening if that was later, to their pass."""
    waits = sorted(
        max(place.admitted_at - max(place.asked_at, offers[one.product].opens_at), 0.0)
        for one in testimonies
        for place in one.places
        if place.admitted_at
    )
    if not waits:
        return None
    parts = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(waits[min(int(part * len(waits)), len(waits) - 1)], 2) for name, part in parts.items()}


def figures_of(rushed: Rushed) -> dict[str, Any]:
    tally, seconds = rushed.tally, max(rushed.ended_s, 1e-9)
    attempts, requests = tally.total("attempts"), tally.total("requests")
    told: dict[str, Any] = {
        "users": rushed.options.users,
        "units": rushed.samples[-1].total_units if rushed.samples else rushed.options.units,
        "seconds": round(seconds, 2),
        "sold": rushed.samples[-1].sold if rushed.samples else None,
        "sold_out_after_s": sold_after_s(rushed),
        "fifty_percent_after_s": sold_after_s(rushed, 0.5),
        "ninety_percent_after_s": sold_after_s(rushed, 0.9),
        "ninety_nine_percent_after_s": sold_after_s(rushed, 0.99),
        "longest_line": max((sample.waiting for sample in rushed.samples), default=0),
        "attempts": attempts,
        "attempts_per_second": round(attempts / _span_s(tally.series.get("attempts", {})), 1),
        "attempts_per_second_peak": peak(tally.series.get("attempts", {})),
        "purchases_per_second_peak": busiest_second(tally.series.get("granted", {})),
        "requests": requests,
        "requests_per_second": round(requests / seconds, 1),
        "requests_per_second_peak": peak(tally.series.get("requests", {})),
        "looks_at_now": tally.total("looks"),
        "endings": tally.names("ending "),
        "refusals": tally.names("refused "),
        "answers": dict(sorted(tally.statuses.items())),
        "latency_ms": {step: tally.histogram(step).told() for step in sorted(tally.latencies)},
        "wait_s": wait_s(rushed.testimonies, rushed.offers),
        "fairness": _fairness(rushed),
        "bots": _bots(rushed),
        "crowd": {
            "processes": rushed.options.processes,
            "cpu_s": rushed.cpu_s,
            "memory_mb": rushed.memory_mb,
        },
    }
    return told


def _span_s(bins: dict[int, int]) -> float:
    return (max(bins) - min(bins) + 1) * BIN_S if bins else 1.0


def _fairness(rushed: Rushed) -> dict[str, Any]:
    measured: dict[str, Fairness | None] = {
        "arrival_to_place": fairness(came_and_placed(rushed.testimonies)),
        "place_to_service": fairness(placed_and_served(rushed.testimonies)),
        "asked_to_granted": fairness(asked_and_granted(rushed.testimonies)),
    }
    return {name: msgspec.to_builtins(one) for name, one in measured.items() if one is not None}


def _bots(rushed: Rushed) -> dict[str, Any]:
    bots = [one for one in rushed.testimonies if one.bot is not None]
    bought = [
        (one.bot is not None, grant.quantity)
        for one in rushed.testimonies
        for grant in one.grants
        if grant.status == "confirmed"
    ]
    units = sum(quantity for _, quantity in bought)
    theirs = sum(quantity for is_bot, quantity in bought if is_bot)
    return {
        "count": len(bots),
        "share_of_crowd": round(len(bots) / max(len(rushed.testimonies), 1), 4),
        "units": theirs,
        "share_of_units": round(theirs / max(units, 1), 4),
    }


def body(rushed: Rushed) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "ok": rushed.ok,
        "checks": [finding.body() for finding in rushed.findings],
        "figures": figures_of(rushed),
        "engine": rushed.engine or None,
        "seed": rushed.options.seed,
        "scenario": body_of(rushed.options.scenario),
        "series": series_of(rushed),
    }


def series_of(rushed: Rushed) -> dict[str, list[float]]:
    """How units and line stood, from the opening on, at so many moments as make a plot."""
    every = -(-len(rushed.samples) // _POINTS) or 1
    chosen = rushed.samples[::-every][::-1]
    found: dict[str, list[float]] = {"at_s": [round(sample.asked_at - _opened_at(rushed), 1) for sample in chosen]}
    for name in ("available", "held", "sold", "joined", "waiting"):
        found[name] = [getattr(sample, name) for sample in chosen]
    return found
