"""A plan as one HTML file with plots, drawn as those of a rush are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path

from holdfast import __version__
from holdfast.plan.facts import Facts
from holdfast.plan.making import Plan
from holdfast.plan.tiers import Tier, breaking
from holdfast.plan.told import assumptions, breaks, heading, results, series
from holdfast.rush.charts import Chart
from holdfast.rush.plots import Series, line_plot, linear, stacked_plot
from holdfast.rush.report import figure_of, table_of


def write_report(plan: Plan, path: Path) -> None:
    path.write_text(report(plan), encoding="utf-8")


def report(plan: Plan) -> str:
    style = files("holdfast.rush").joinpath("page.css").read_text()
    title = f"Plan: {plan.facts.users:,} people, {plan.facts.units:,} units"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{style}</style></head><body><main>",
            _header(plan),
            _tiles(plan),
            '<div class="plots">',
            *map(figure_of, charts_of(plan)),
            "</div>",
            '<div class="two">',
            table_of("Machines", _COLUMNS, [_row(tier) for tier in plan.tiers]),
            _list("What gives way first", [breaks(tier) for tier in breaking(plan.tiers)]),
            _list("Where the machines come from", _sources(plan.tiers)),
            _list("Where the times come from", [f"{one.name}: {one.follows_from}" for one in results(plan)]),
            _list("What is assumed", assumptions(plan)),
            _list("The sale", _facts(plan.facts)),
            "</div>",
            f"<footer>Holdfast {__version__} · {datetime.now(UTC):%Y-%m-%d %H:%M} UTC</footer>",
            "</main></body></html>",
        ]
    )


_COLUMNS = ["tier", "needed", "planned", "busy at its peak", "to spare"]


def _row(tier: Tier) -> list[str]:
    return [tier.name, tier.counted, f"{tier.given}", f"{tier.used:.0%}", f"{max(1 - tier.used, 0):.0%}"]


def _header(plan: Plan) -> str:
    short = [tier.name for tier in plan.tiers if not tier.is_enough]
    words = f"Not enough: {', '.join(short)}" if short else f"Enough; first at its limit: {plan.breaks_first.name}"
    kind = "bad" if short else ""
    return (
        f"<header><div><h1>The plan</h1><p>{escape(heading(plan.facts))}</p></div>"
        f'<div class="verdict {kind}">{escape(words)}</div></header>'
    )


def _tiles(plan: Plan) -> str:
    tiles = "".join(
        f'<div class="tile"><b>{escape(one.value)}</b><span>{escape(one.name)}</span></div>' for one in results(plan)
    )
    return f'<div class="tiles">{tiles}</div>'


def _list(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<section><h2>{title}</h2><ul>{items}</ul></section>"


def _sources(tiers: Sequence[Tier]) -> list[str]:
    return [f"{tier.name}: {tier.follows_from}. Measured: {'; '.join(tier.figures)}" for tier in tiers]


def _facts(facts: Facts) -> list[str]:
    return [f"{name}: {getattr(facts, name)}" for name in Facts.__struct_fields__]


def charts_of(plan: Plan) -> list[Chart]:
    found = series(plan.moments)
    at = found["at_s"]
    time = linear("seconds", max(at, default=1.0))

    def lines(*wanted: tuple[str, str, int]) -> list[Series]:
        return [Series(name, list(zip(at, found[key], strict=True)), colour) for name, key, colour in wanted]

    units = lines(("sold", "sold", 1), ("held or being paid", "held", 3), ("available", "available", 6))
    line = lines(("waiting", "waiting", 0), ("trying to join", "joining", 2), ("called so far", "called", 1))
    rates = lines(
        ("joins", "joins_per_second", 6), ("attempts", "attempts_per_second", 0), ("orders", "orders_per_second", 1)
    )
    charts = [
        Chart(
            "Where the units are", "Every unit is in one of three states at any time.", "units", units,
            stacked_plot(units, time, linear("units", plan.facts.units)),
        ),
        _lines("What the machines do", "Places given, purchases asked for, orders paid.", "per second", rates, at),
    ]  # fmt: skip
    if not plan.facts.has_room:
        return charts
    looks = lines(("looks at `now`", "looks_per_second", 5))
    return [
        _lines("The line", "Those in it, those who could not join yet, and how many were called.", "people", line, at),
        *charts,
        _lines("What the edge answers", "Everyone who waits looks as often as they are told.", "per second", looks, at),
    ]


def _lines(title: str, about: str, unit: str, drawn: list[Series], at: Sequence[float]) -> Chart:
    most = max((value for one in drawn for _, value in one.points), default=1.0) or 1.0
    svg = line_plot(drawn, linear("seconds", max(at, default=1.0)), linear(unit, most))
    return Chart(title, about, unit, drawn, svg)
