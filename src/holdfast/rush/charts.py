"""Which plots a report has, and what each shows."""

from math import log10

from msgspec import Struct

from holdfast.rush.fairness import ranks_of
from holdfast.rush.figures import Pairs, asked_and_granted, came_and_placed, per_second, placed_and_served
from holdfast.rush.histogram import Histogram
from holdfast.rush.plots import (
    Axis,
    Point,
    Series,
    line_plot,
    linear,
    logarithmic,
    number,
    scatter_plot,
    stacked_plot,
)
from holdfast.rush.rehearsal import Rushed
from holdfast.rush.tally import BIN_S
from holdfast.rush.wishes import Step

_ENDINGS_MAX = 6
_SLICES = 150
_CURVES = (Step.PURCHASE, Step.JOIN, Step.ADMISSION, Step.CONFIRM, Step.RESERVATION)
# As many between one nine and the next as a smooth curve needs.
_PERCENTILES = [100 * (1 - 10 ** (-nines / 12)) for nines in range(49)]
# The same in every report, with green for those who got what they came for.
_COLOURS = {"bought": 1, "sold_out": 0, "gave_up": 2, "abandoned": 3, "kept_out": 4, "vanished": 5}
_OTHERS = 7


class Chart(Struct, frozen=True):
    title: str
    about: str
    unit: str
    series: list[Series]
    svg: str


def charts_of(rushed: Rushed) -> list[Chart]:
    made = [
        _attempts(rushed), _endings(rushed), _percentiles(rushed), _latency_over_time(rushed), _line(rushed),
        _fairness(rushed), _conservation(rushed),
    ]  # fmt: skip
    return [chart for chart in made if chart is not None]


def _time(rushed: Rushed) -> Axis:
    last = max((sample.asked_at - rushed.starts_at for sample in rushed.samples), default=0.0)
    return linear("seconds", max(rushed.ended_s, last, 1.0))


def _width_s(rushed: Rushed) -> float:
    """Of a slice: a tenth of a second in a short rush, and never so fine that a plot is a hedge."""
    return max(BIN_S, round(rushed.ended_s / _SLICES / BIN_S) * BIN_S)


def _attempts(rushed: Rushed) -> Chart | None:
    tally, width_s = rushed.tally, _width_s(rushed)
    refused: dict[int, int] = {}
    for name, bins in tally.series.items():
        if name.startswith("refused "):
            for bin_, count in bins.items():
                refused[bin_] = refused.get(bin_, 0) + count
    series = [
        Series("attempts to buy", per_second(tally.series.get("attempts", {}), width_s), 0),
        Series("granted", per_second(tally.series.get("granted", {}), width_s), 1),
        Series("refused, or no answer", per_second(refused, width_s), 2),
        Series("all requests", per_second(tally.series.get("requests", {}), width_s), 6),
    ]
    top = linear("per second", _highest(series))
    about = "Purchases when they were due, and how they were answered, beside everything else that was asked."
    return Chart("Attempts and answers", about, "per second", series, line_plot(series, _time(rushed), top))


def _endings(rushed: Rushed) -> Chart | None:
    names = list(rushed.tally.names("ending "))
    shown, others = names[:_ENDINGS_MAX], names[_ENDINGS_MAX:]
    width_s = _width_s(rushed)
    slices = int(rushed.ended_s / width_s) + 2
    series = [
        Series(name.replace("_", " "), _summed(rushed, [name], width_s, slices), _COLOURS.get(name, _OTHERS - 1))
        for name in shown
    ]
    if others:
        series.append(Series("others", _summed(rushed, others, width_s, slices), _OTHERS))
    svg = stacked_plot(series, _time(rushed), linear("people", rushed.options.users))
    return Chart(
        "How it ended, for how many", "Everyone who has gone by then, by how it ended for them.", "people", series, svg
    )


def _summed(rushed: Rushed, names: list[str], width_s: float, slices: int) -> list[Point]:
    """How many so far."""
    step, sums = max(1, round(width_s / BIN_S)), [0] * slices
    for name in names:
        for bin_, count in rushed.tally.series[f"ending {name}"].items():
            sums[min(max(bin_ // step, 0), slices - 1)] += count
    points, so_far = [], 0
    for number_, count in enumerate(sums):
        so_far += count
        points.append((number_ * width_s, float(so_far)))
    return points


def _percentiles(rushed: Rushed) -> Chart | None:
    found = [(step, rushed.tally.histogram(step)) for step in _CURVES]
    series = [
        Series(step.value, [(p, max(histogram.quantile_ms(p / 100), 0.1)) for p in _PERCENTILES], colour)
        for colour, (step, histogram) in enumerate(found)
        if histogram.total
    ]
    if not series:
        return None
    ticks = [(p, f"{p:g} %") for p in (0.0, 50, 90, 99, 99.9, 99.99)]
    # Each nine takes as much room as the one before: what happens to the unlucky few is the point.
    x = Axis("share of requests that were not slower", ticks, lambda p: _nines(p) / _nines(99.99))
    y = logarithmic("ms", 0.1, _highest(series))
    about = "From the moment each was due, so waiting for a free connection counts. Both axes are logarithmic."
    return Chart("Latency", about, "milliseconds", series, line_plot(series, x, y))


def _nines(percent: float) -> float:
    return -log10(1 - percent / 100)


def _latency_over_time(rushed: Rushed) -> Chart | None:
    seconds = sorted(rushed.tally.attempts.items())
    if not seconds:
        return None
    slices = [(second + 0.5, Histogram(dict(one.counts), one.largest)) for second, one in seconds]
    series = [
        Series(name, [(at, histogram.quantile_ms(part)) for at, histogram in slices], colour)
        for name, part, colour in (("half", 0.5, 0), ("99 %", 0.99, 2))
    ]
    about = "Purchases, by the second in which they were answered: half were quicker than this, 99 % than that."
    svg = line_plot(series, _time(rushed), linear("ms", _highest(series)))
    return Chart("Latency of purchases over time", about, "milliseconds", series, svg)


def _line(rushed: Rushed) -> Chart | None:
    samples = [sample for sample in rushed.samples if sample.serving]
    if not samples:
        return None
    at = [sample.asked_at - rushed.starts_at for sample in samples]
    series = [
        Series("waiting", [(t, float(s.waiting)) for t, s in zip(at, samples, strict=True)], 0),
        Series("joined so far", [(t, float(s.joined)) for t, s in zip(at, samples, strict=True)], 6),
        Series("called so far", [(t, float(sum(s.serving.values()))) for t, s in zip(at, samples, strict=True)], 1),
    ]
    svg = line_plot(series, _time(rushed), linear("people", _highest(series)))
    return Chart("The line", "As the server tells its operator.", "people", series, svg)


def _fairness(rushed: Rushed) -> Chart | None:
    """With a line two clouds: the places people were given, and when they were let in. Without one, one of grants."""
    seen = rushed.testimonies
    has_line = bool(came_and_placed(seen))
    clouds = (
        [
            Series("let in", _ranked(placed_and_served(seen)), 6),
            Series("place in line", _ranked(came_and_placed(seen)), 0),
        ]
        if has_line
        else [Series("granted units", _ranked(asked_and_granted(seen)), 0)]
    )
    clouds = [cloud for cloud in clouds if cloud.points]
    if not clouds:
        return None
    svg = scatter_plot(clouds, linear("order in which they came", 1), linear("order in which they were served", 1))
    about = "On the diagonal the order was kept; a lottery fills the square. "
    about += (
        "Who is called together comes when they look next."
        if has_line
        else "Who asks at the same moment is decided together."
    )
    return Chart("First come, first served?", about, "share of the line", clouds, svg)


def _ranked(pairs: Pairs) -> list[Point]:
    """As shares of all, so that clouds of different sizes lie over each other."""
    ranks = ranks_of([second for _, second in sorted(pairs)])
    return [(number_ / len(ranks), rank / len(ranks)) for number_, rank in enumerate(ranks)]


def _conservation(rushed: Rushed) -> Chart | None:
    if not rushed.samples:
        return None
    at = [(sample.asked_at - rushed.starts_at, sample) for sample in rushed.samples]
    series = [
        Series("sold", [(t, float(s.sold)) for t, s in at], 1),
        Series("held or being paid", [(t, float(s.held)) for t, s in at], 3),
        Series("available", [(t, float(s.available)) for t, s in at], 6),
    ]
    total = rushed.samples[-1].total_units
    svg = stacked_plot(series, _time(rushed), linear("units", total))
    about = f"Every unit is in one of three states at any time: they add up to {number(total)}."
    return Chart("Where the units are", about, "units", series, svg)


def _highest(series: list[Series]) -> float:
    return max((value for one in series for _, value in one.points), default=1.0) or 1.0
