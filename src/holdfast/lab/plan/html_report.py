"""The HTML report of a plan."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from holdfast import __version__
from holdfast.lab.charts.chart import Axis, Chart, Series
from holdfast.lab.charts.html_page import bullets, charts, columns, footer, header, page, section, table, tiles
from holdfast.lab.plan.facts import Facts
from holdfast.lab.plan.plan import Plan
from holdfast.lab.plan.report_text import assumptions, headline, limits, results, series
from holdfast.lab.plan.tiers import Tier, by_utilisation

_COLUMNS = ["tier", "needed", "planned", "peak utilisation", "headroom"]


def write_report(plan: Plan, path: Path) -> None:
    path.write_text(report(plan), encoding="utf-8")


def report(plan: Plan) -> str:
    parts = [
        _header(plan),
        tiles((one.value, one.name) for one in results(plan)),
        charts(charts_of(plan)),
        columns(
            section("Hardware", table(_COLUMNS, [_row(tier) for tier in plan.tiers])),
            section("Bottlenecks, tightest first", bullets(limits(tier) for tier in by_utilisation(plan.tiers))),
            section("How the hardware was sized", bullets(_sources(plan.tiers))),
            section("How the times follow", bullets(f"{one.name}: {one.follows_from}" for one in results(plan))),
            section("Assumptions", bullets(assumptions(plan))),
            section("Sale", bullets(_facts(plan.facts))),
        ),
        footer([f"Holdfast {__version__}", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"]),
    ]
    return page(f"Plan: {plan.facts.users:,} buyers, {plan.facts.units:,} units", parts)


def _row(tier: Tier) -> list[str]:
    return [tier.name, tier.counted, f"{tier.given}", f"{tier.used:.0%}", f"{max(1 - tier.used, 0):.0%}"]


def _header(plan: Plan) -> str:
    short = [tier.name for tier in plan.tiers if not tier.is_enough]
    verdict = f"Not enough: {', '.join(short)}" if short else f"Enough; bottleneck: {plan.bottleneck.name}"
    return header("Sale forecast", headline(plan.facts), verdict, "bad" if short else "good")


def _sources(tiers: Sequence[Tier]) -> list[str]:
    return [f"{tier.name}: {tier.follows_from}. Measured: {'; '.join(tier.figures)}" for tier in tiers]


def _facts(facts: Facts) -> list[str]:
    return [f"{name}: {getattr(facts, name)}" for name in Facts.__struct_fields__]


def charts_of(plan: Plan) -> list[Chart]:
    found = series(plan.snapshots)
    time = Axis("seconds", max(found["at_s"], default=1.0))

    def lines(title: str, about: str, unit: str, *wanted: tuple[str, str, int]) -> Chart:
        return Chart(title, about, "lines", time, Axis(unit), _series(found, wanted))

    stock = _series(found, (("sold", "sold", 1), ("held or being paid", "held", 3), ("available", "available", 6)))
    made = [
        Chart(
            "Stock", "Every unit is in one of three states at any time.", "stacked", time,
            Axis("units", float(plan.facts.units)), stock,
        ),
        lines(
            "Load", "Joins, purchase attempts, and paid orders.", "per second", ("joins", "joins_per_second", 6),
            ("purchase attempts", "attempts_per_second", 0), ("orders", "orders_per_second", 1),
        ),
    ]  # fmt: skip
    if not plan.facts.has_room:
        return made
    queue = lines(
        "Queue", "Waiting in the queue, still trying to join, and called so far.", "buyers",
        ("waiting", "waiting", 0), ("trying to join", "joining", 2), ("called so far", "called", 1),
    )  # fmt: skip
    polls = lines(
        "Polls at the edge", "Everyone in the queue polls at the interval they are given.", "per second",
        ("polls of `now`", "looks_per_second", 5),
    )  # fmt: skip
    return [queue, *made, polls]


def _series(found: dict[str, list[float]], wanted: Sequence[tuple[str, str, int]]) -> list[Series]:
    return [Series(name, list(zip(found["at_s"], found[key], strict=True)), colour) for name, key, colour in wanted]
