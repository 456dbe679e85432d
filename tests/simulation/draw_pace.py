"""Draws the plots of docs/PACE.md: `python tests/simulation/draw_pace.py`."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from pace_laws import aimd_without_knee
from pace_model import Moment, World
from pace_scenarios import EVERY, SURGE

from holdfast.lab.charts.chart import Series
from holdfast.lab.charts.docs_plots import Panel, plot

FIGURES = Path(__file__).parents[2] / "docs" / "pace"
SEED = 1
PER_SECOND = 10


def figure(world: World, title: str) -> str:
    moments = world.moments

    def line(name: str, value: Callable[[Moment], float], colour: int = 0) -> Series:
        return Series(name, [(m.at_s, value(m)) for m in moments], colour)

    called = [(two.at_s, float(two.serving - one.serving)) for one, two in pairwise(moments[::PER_SECOND])]
    allowed, bound = line("allowed", lambda m: m.rate, 2), line("bound", lambda m: m.room, 2)
    panels = [
        Panel("called per second", [Series("called", called), allowed], dashed=frozenset({"allowed"})),
        Panel(
            "people inside",
            [line("inside", lambda m: m.inside), bound],
            top=max(m.inside for m in moments) * 1.15,
            dashed=frozenset({"bound"}),
        ),
        Panel("units", [line("sold", lambda m: m.sold), line("available", lambda m: m.available, 2)]),
    ]
    if max(m.latency_ms for m in moments) > 1_000:
        panels.append(Panel("slowest gate response, seconds", [line("latency", lambda m: m.latency_ms / 1_000)]))
    return plot(title, panels, "seconds since opening")


def figures() -> dict[str, str]:
    drawn = {scenario.name: figure(World(scenario, SEED).run(), scenario.title) for scenario in EVERY}
    drawn["surge-without-knee"] = figure(World(SURGE, SEED, aimd_without_knee).run(), f"{SURGE.title}, without a knee")
    return drawn


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    for name, drawn in figures().items():
        (FIGURES / f"{name}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
