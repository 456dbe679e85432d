"""The figures of a rush, as `--json` prints them."""

from itertools import accumulate
from typing import Any

import msgspec

from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.tally import BIN_S
from holdfast.lab.rush.checks.edge_answers import answers_of
from holdfast.lab.rush.checks.fairness import Fairness, fairness
from holdfast.lab.rush.run import RushResult
from holdfast.lab.scenarios.scenario import as_json_object

_POINTS = 120


def per_second(bins: dict[int, int], width_s: float = 1.0) -> list[tuple[float, float]]:
    """A rate over time: the middle of each bin and its count per second. Empty bins are zeros."""
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
    """The maximum within any second, not only within whole ones."""
    width = round(1 / BIN_S)
    return max((sum(bins.get(first + more, 0) for more in range(width)) for first in bins), default=0)


Pairs = list[tuple[float, float]]


def arrival_and_place(records: list[BuyerRecord]) -> Pairs:
    """Pairs of (time of joining, place)."""
    places = (place for one in records for place in one.places if place.position is not None)
    return [(place.joined_at, float(place.position or 0)) for place in places]


def place_and_admission(records: list[BuyerRecord]) -> Pairs:
    """Pairs of (place, time of admission)."""
    places = (place for one in records for place in one.places if place.position is not None and place.admitted_at)
    return [(float(place.position or 0), place.admitted_at) for place in places]


def request_and_grant(records: list[BuyerRecord]) -> Pairs:
    """Without a queue: pairs of (time of the request, time of the grant)."""
    return [(grant.asked_at, grant.answered_at) for one in records for grant in one.grants[:1]]


def sold_after_s(result: RushResult, part: float = 1.0) -> float | None:
    """Seconds from the opening until this share was sold. Taken from the ledger if it was read, because samples are
    late under load."""
    opened_at = _opened_at(result)
    if not result.sold or not result.samples:
        seen = (sample.asked_at for sample in result.samples if sample.sold >= part * sample.total_units > 0)
        return next((round(at - opened_at, 2) for at in seen), None)
    wanted = part * result.samples[-1].total_units
    sums = accumulate(units for _, units in result.sold)
    made = (at for (at, _), sold in zip(result.sold, sums, strict=True) if sold >= wanted)
    return next((round(max(at - opened_at, 0.0), 2) for at in made), None)


def _opened_at(result: RushResult) -> float:
    return max(result.starts_at, min(offer.opens_at for offer in result.offers))


def wait_s(records: list[BuyerRecord], offers: list[Offer]) -> dict[str, float] | None:
    """For admitted buyers: the time until their pass, counted from joining or from the opening, whichever was later."""
    waits = sorted(
        max(place.admitted_at - max(place.asked_at, offers[one.product].opens_at), 0.0)
        for one in records
        for place in one.places
        if place.admitted_at
    )
    if not waits:
        return None
    parts = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(waits[min(int(part * len(waits)), len(waits) - 1)], 2) for name, part in parts.items()}


def figures_of(result: RushResult) -> dict[str, Any]:
    tally, seconds = result.tally, max(result.ended_s, 1e-9)
    attempts, requests = tally.total("attempts"), tally.total("requests")
    return {
        "users": result.options.users,
        "units": result.samples[-1].total_units if result.samples else result.options.units,
        "seconds": round(seconds, 2),
        "sold": result.samples[-1].sold if result.samples else None,
        "sold_out_after_s": sold_after_s(result),
        "fifty_percent_after_s": sold_after_s(result, 0.5),
        "ninety_percent_after_s": sold_after_s(result, 0.9),
        "ninety_nine_percent_after_s": sold_after_s(result, 0.99),
        "longest_line": max((sample.waiting for sample in result.samples), default=0),
        "attempts": attempts,
        "attempts_per_second": round(attempts / _span_s(tally.series.get("attempts", {})), 1),
        "attempts_per_second_peak": peak(tally.series.get("attempts", {})),
        "purchases_per_second_peak": busiest_second(tally.series.get("granted", {})),
        "requests": requests,
        "requests_per_second": round(requests / seconds, 1),
        "requests_per_second_peak": peak(tally.series.get("requests", {})),
        "looks_at_now": tally.total("looks"),
        "endings": tally.totals("ending "),
        "refusals": tally.totals("refused "),
        "responses": dict(sorted(tally.statuses.items())),
        "latency_ms": {step: tally.histogram(step).percentiles_ms() for step in sorted(tally.latencies)},
        "wait_s": wait_s(result.records, result.offers),
        "fairness": _fairness(result),
        "bots": _bots(result),
        "edge": edge_figures(result),
        "crowd": {
            "processes": result.options.processes,
            "cpu_s": result.cpu_s,
            "memory_mb": result.memory_mb,
        },
    }


def _span_s(bins: dict[int, int]) -> float:
    return (max(bins) - min(bins) + 1) * BIN_S if bins else 1.0


def _fairness(result: RushResult) -> dict[str, Any]:
    measured: dict[str, Fairness | None] = {
        "arrival_to_place": fairness(arrival_and_place(result.records)),
        "place_to_service": fairness(place_and_admission(result.records)),
        "asked_to_granted": fairness(request_and_grant(result.records)),
    }
    return {name: msgspec.to_builtins(one) for name, one in measured.items() if one is not None}


def edge_figures(result: RushResult) -> dict[str, Any] | None:
    """Where buyers and requests were answered; None without an edge."""
    if not result.has_edge:
        return None
    answers, users = answers_of(result.records, result.tally), max(len(result.records), 1)
    return {
        "buyers": answers.buyers,
        "never_reached_origin": users - answers.reached_origin,
        "share_never_reached_origin": round(1 - answers.reached_origin / users, 4),
        "requests": answers.requests,
        "requests_by_step": answers.by_step,
        "origin_answered": None if result.origin is None else result.origin.answered,
    }


def _bots(result: RushResult) -> dict[str, Any]:
    bots = [one for one in result.records if one.bot is not None]
    bought = [
        (one.bot is not None, grant.quantity)
        for one in result.records
        for grant in one.grants
        if grant.status == "confirmed"
    ]
    units = sum(quantity for _, quantity in bought)
    theirs = sum(quantity for is_bot, quantity in bought if is_bot)
    return {
        "count": len(bots),
        "share_of_crowd": round(len(bots) / max(len(result.records), 1), 4),
        "units": theirs,
        "share_of_units": round(theirs / max(units, 1), 4),
    }


def body(result: RushResult) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "ok": result.ok,
        "checks": [finding.body() for finding in result.findings],
        "figures": figures_of(result),
        "engine": result.engine or None,
        "seed": result.options.seed,
        "scenario": as_json_object(result.options.scenario),
        "series": series_of(result),
    }


def series_of(result: RushResult) -> dict[str, list[float]]:
    """Stock and queue over time, from the opening on, downsampled for plotting."""
    every = -(-len(result.samples) // _POINTS) or 1
    chosen = result.samples[::-every][::-1]
    found: dict[str, list[float]] = {"at_s": [round(sample.asked_at - _opened_at(result), 1) for sample in chosen]}
    for name in ("available", "held", "sold", "joined", "waiting"):
        found[name] = [getattr(sample, name) for sample in chosen]
    return found
