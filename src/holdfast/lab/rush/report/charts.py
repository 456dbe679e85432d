"""The charts of a rush report."""

from math import log10

from holdfast.lab.charts.chart import Axis, Chart, Point, Series
from holdfast.lab.rush.buyers.actions import Step
from holdfast.lab.rush.buyers.source import Source
from holdfast.lab.rush.buyers.tally import BIN_S
from holdfast.lab.rush.checks.fairness import ranks_of
from holdfast.lab.rush.report.figures import (
    Pairs,
    arrival_and_place,
    per_second,
    place_and_admission,
    request_and_grant,
)
from holdfast.lab.rush.run import RushResult

_ENDINGS_MAX = 6
_BINS_MAX = 150
_DOTS_MAX = 1_400
_CURVES = (Step.PURCHASE, Step.JOIN, Step.ADMISSION, Step.CONFIRM, Step.RESERVATION)
# Enough points between one nine and the next for a smooth curve.
_NINES = [number / 12 for number in range(49)]
_PERCENTILE_TICKS = [(-log10(1 - p / 100), f"{p:g} %") for p in (0.0, 50, 90, 99, 99.9, 99.99)]
# The same colours in every report, with green for buyers who got what they wanted.
_COLOURS = {"bought": 1, "sold_out": 0, "gave_up": 2, "abandoned": 3, "kept_out": 4, "vanished": 5}
_OTHERS = 7


def charts_of(result: RushResult) -> list[Chart]:
    made = [
        _attempts(result), _sources(result), _endings(result), _percentiles(result), _latency_over_time(result),
        _queue(result), _fairness(result), _stock(result),
    ]  # fmt: skip
    return [chart for chart in made if chart is not None]


def _time(result: RushResult) -> Axis:
    last = max((sample.asked_at - result.starts_at for sample in result.samples), default=0.0)
    return Axis("seconds", max(result.ended_s, last, 1.0))


def _bin_width_s(result: RushResult) -> float:
    """A tenth of a second in a short rush, wider in a long one."""
    return max(BIN_S, round(result.ended_s / _BINS_MAX / BIN_S) * BIN_S)


def _attempts(result: RushResult) -> Chart:
    tally, width_s = result.tally, _bin_width_s(result)
    refused: dict[int, int] = {}
    for name, bins in tally.series.items():
        if name.startswith("refused "):
            for bin_, count in bins.items():
                refused[bin_] = refused.get(bin_, 0) + count
    series = [
        Series("purchase attempts", per_second(tally.series.get("attempts", {}), width_s), 0),
        Series("reserved", per_second(tally.series.get("granted", {}), width_s), 1),
        Series("refused or unanswered", per_second(refused, width_s), 2),
        Series("all requests", per_second(tally.series.get("requests", {}), width_s), 6),
    ]
    about = "Purchase attempts when they were due, how they were answered, and all requests together."
    return Chart("Attempts and responses", about, "lines", _time(result), Axis("per second"), series)


def _sources(result: RushResult) -> Chart | None:
    if not result.has_edge:
        return None
    width_s = _bin_width_s(result)
    series = [
        Series(source.replace("_", " "), per_second(result.tally.series[f"from {source}"], width_s), colour)
        for source, colour in ((Source.EDGE_CACHE, 1), (Source.EDGE_REFUSAL, 2), (Source.ORIGIN, 0))
        if f"from {source}" in result.tally.series
    ]
    about = "Answers from the edge's cache, refusals by the edge, and answers of the server behind it."
    return Chart("Where requests were answered", about, "lines", _time(result), Axis("per second"), series)


def _endings(result: RushResult) -> Chart:
    names = list(result.tally.totals("ending "))
    shown, others = names[:_ENDINGS_MAX], names[_ENDINGS_MAX:]
    series = [
        Series(name.replace("_", " "), _running_total(result, [name]), _COLOURS.get(name, _OTHERS - 1))
        for name in shown
    ]
    if others:
        series.append(Series("others", _running_total(result, others), _OTHERS))
    about = "Buyers whose visit has ended, by outcome."
    return Chart("Outcomes", about, "stacked", _time(result), Axis("buyers", result.options.users), series)


def _running_total(result: RushResult, names: list[str]) -> list[Point]:
    width_s = _bin_width_s(result)
    bins = int(result.ended_s / width_s) + 2
    step, sums = max(1, round(width_s / BIN_S)), [0] * bins
    for name in names:
        for bin_, count in result.tally.series[f"ending {name}"].items():
            sums[min(max(bin_ // step, 0), bins - 1)] += count
    points, total = [], 0
    for number, count in enumerate(sums):
        total += count
        points.append((number * width_s, float(total)))
    return points


def _percentiles(result: RushResult) -> Chart | None:
    found = [(step, result.tally.histogram(step)) for step in _CURVES]
    series = [
        Series(step.value, [(n, max(histogram.quantile_ms(1 - 10**-n), 0.1)) for n in _NINES], colour)
        for colour, (step, histogram) in enumerate(found)
        if histogram.total
    ]
    if not series:
        return None
    # Each nine is as wide as the one before, because the slowest requests matter most.
    x = Axis("share of requests at most this slow", _NINES[-1], ticks=_PERCENTILE_TICKS)
    about = "From the moment each request was due, so waiting for a free connection counts. Both axes are logarithmic."
    return Chart("Latency percentiles", about, "lines", x, Axis("ms", is_log=True), series)


def _latency_over_time(result: RushResult) -> Chart | None:
    seconds = sorted(result.tally.attempts.items())
    if not seconds:
        return None
    series = [
        Series(name, [(second + 0.5, histogram.quantile_ms(share)) for second, histogram in seconds], colour)
        for name, share, colour in (("p50", 0.5, 0), ("p99", 0.99, 2))
    ]
    about = "Purchases, by the second in which they were answered."
    return Chart("Purchase latency over time", about, "lines", _time(result), Axis("ms"), series)


def _queue(result: RushResult) -> Chart | None:
    at = [(sample.asked_at - result.starts_at, sample) for sample in result.samples if sample.serving]
    if not at:
        return None
    series = [
        Series("waiting", [(t, float(s.waiting)) for t, s in at], 0),
        Series("joined so far", [(t, float(s.joined)) for t, s in at], 6),
        Series("called so far", [(t, float(sum(s.serving.values()))) for t, s in at], 1),
    ]
    return Chart("Queue", "As reported by the server.", "lines", _time(result), Axis("buyers"), series)


def _fairness(result: RushResult) -> Chart | None:
    """With a queue, two scatter plots: places by arrival, and admissions by place. Without one: grants by request."""
    records = result.records
    has_queue = bool(arrival_and_place(records))
    clouds = (
        [
            Series("admission", _ranked(place_and_admission(records)), 2),
            Series("place in the queue", _ranked(arrival_and_place(records)), 0),
        ]
        if has_queue
        else [Series("reservation", _ranked(request_and_grant(records)), 0)]
    )
    clouds = [cloud for cloud in clouds if cloud.points]
    if not clouds:
        return None
    about = "On the diagonal, arrival order was kept; a lottery fills the square. "
    about += (
        "Buyers called together are admitted when they poll next."
        if has_queue
        else "Requests that arrive together are decided together."
    )
    x, y = Axis("arrival rank (share)", 1.0), Axis("service rank (share)", 1.0)
    return Chart("First come, first served", about, "scatter", x, y, clouds)


def _ranked(pairs: Pairs) -> list[Point]:
    """Ranks as shares, so that plots of different sizes can be compared."""
    ranks = ranks_of([second for _, second in sorted(pairs)])
    points = [(number / len(ranks), rank / len(ranks)) for number, rank in enumerate(ranks)]
    return points[:: max(1, len(points) // _DOTS_MAX)]


def _stock(result: RushResult) -> Chart | None:
    if not result.samples:
        return None
    at = [(sample.asked_at - result.starts_at, sample) for sample in result.samples]
    series = [
        Series("sold", [(t, float(s.sold)) for t, s in at], 1),
        Series("held or being paid", [(t, float(s.held)) for t, s in at], 3),
        Series("available", [(t, float(s.available)) for t, s in at], 6),
    ]
    total = result.samples[-1].total_units
    about = f"Every unit is in one of three states at any time; they add up to {total:,}."
    return Chart("Stock", about, "stacked", _time(result), Axis("units", float(total)), series)
