"""Draws the plots of docs/PACE.md: `python tests/simulation/draw_pace.py`."""

from itertools import pairwise
from pathlib import Path

from pace_laws import aimd_without_knee
from pace_scenarios import EVERY, SURGE
from pace_world import World
from svg import Line, Panel, chart, round_up

FIGURES = Path(__file__).parents[2] / "docs" / "pace"
SEED = 1
PER_SECOND = 10


def figure(world: World, title: str) -> str:
    moments = world.moments
    seconds = moments[::PER_SECOND]
    called = [(two.at_s, float(two.serving - one.serving)) for one, two in pairwise(seconds)]
    panels = [
        Panel(
            "called per second", [Line("called", called), Line("allowed", [(m.at_s, m.rate) for m in moments], True)]
        ),
        Panel(
            "people inside",
            [
                Line("inside", [(m.at_s, m.inside) for m in moments]),
                Line("bound", [(m.at_s, m.room) for m in moments], True),
            ],
            top=round_up(max(m.inside for m in moments) * 1.1),
        ),
        Panel(
            "units",
            [
                Line("sold", [(m.at_s, m.sold) for m in moments]),
                Line("available", [(m.at_s, m.available) for m in moments]),
            ],
        ),
    ]
    if max(m.latency_ms for m in moments) > 1_000:
        panels.append(
            Panel(
                "slowest answer of the gate, seconds",
                [Line("latency", [(m.at_s, m.latency_ms / 1_000) for m in moments])],
            )
        )
    return chart(title, panels, "seconds since opening")


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
