"""`holdfast plan`."""

import textwrap
from math import ceil
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins
from msgspec.structs import replace

from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, examples, print_facts, print_json, print_table
from holdfast.domain.stock.limits import MAX_HOLD_S
from holdfast.errors import SettingsError
from holdfast.lab.plan.around import Need, Prices, around
from holdfast.lab.plan.facts import WINDOW_MAX_S, Facts, Payment
from holdfast.lab.plan.figures import Figures, measured, read_figures
from holdfast.lab.plan.html_report import write_report
from holdfast.lab.plan.plan import Existing, Plan, make_plan
from holdfast.lab.plan.report_text import assumptions, body, headline, limits, results, series
from holdfast.lab.plan.rush_comparison import (
    WITHIN,
    Comparison,
    MeasuredRush,
    compare,
    plan_rush,
    read_rush,
    rush_facts,
)
from holdfast.lab.plan.sparkline import sparkline
from holdfast.lab.plan.tiers import Tier, by_utilisation
from holdfast.lab.scenarios.scenario import Shape

app = typer.Typer()

_WIDTH = 80
_PRICES = Prices()
_PLOTTED = {"waiting": "in queue", "held": "held", "sold": "sold", "attempts_per_second": "attempts/s"}

Users = Annotated[int | None, typer.Option(help="Number of people.", min=1, max=10_000_000)]
Units = Annotated[int | None, typer.Option(help="Units to sell.", min=1, max=10_000_000)]
DecidedOn = Annotated[Engine, typer.Option(help="Engine that decides reservations.")]
Arrival = Annotated[Shape, typer.Option(help="Arrivals: even, increasing or random.")]
Over = Annotated[float, typer.Option("--seconds", help="Seconds over which they arrive.", min=0, max=86_400)]
Opens = Annotated[float, typer.Option(help="Seconds from the first arrival to the opening.", min=0, max=86_400)]
Window = Annotated[float, typer.Option(help="Seconds the sale is open.", min=1, max=WINDOW_MAX_S)]
HasRoom = Annotated[bool, typer.Option("--room/--no-room", help="Use a waiting room.")]
HasEdge = Annotated[bool, typer.Option("--edge-cache/--no-edge-cache", help="A cache in front answers `now`.")]
Rate = Annotated[float, typer.Option(help="People called from the queue per second.", min=1, max=1_000_000)]
PassS = Annotated[float, typer.Option("--pass-seconds", help="Lifetime of a pass.", min=1, max=86_400)]
NoShow = Annotated[float, typer.Option(help="Share of called people who do not come.", min=0, max=1)]
Conversion = Annotated[float, typer.Option(help="Share of admitted people who buy.", min=0, max=1)]
BrowseS = Annotated[float, typer.Option("--browse-seconds", help="Time from pass to purchase.", min=0, max=3_600)]
Quantity = Annotated[float, typer.Option(help="Units per buyer.", min=1, max=1_000_000)]
Instant = Annotated[bool, typer.Option("--instant", help="Instant checkout, no cart.")]
HoldS = Annotated[float, typer.Option("--hold-seconds", help="Lifetime of a cart.", min=1, max=MAX_HOLD_S)]
Abandon = Annotated[float, typer.Option(help="Share of abandoned carts.", min=0, max=1)]
PayS = Annotated[float, typer.Option("--pay-seconds", help="Time from cart to payment.", min=0, max=3_600)]
Declines = Annotated[float, typer.Option(help="Share of declined payments.", min=0, max=1)]
PaidBy = Annotated[Payment, typer.Option(help="Payment method.")]
ProviderS = Annotated[
    float, typer.Option("--provider-seconds", help="Duration of a card payment at the provider.", min=0, max=600)
]
EdgeCores = Annotated[int | None, typer.Option(help="Edge cores; default: as needed.", min=1)]
Api = Annotated[int | None, typer.Option(help="Server processes; default: as needed.", min=1)]
Shards = Annotated[int | None, typer.Option(help="Redis shards; default: as needed.", min=1)]
PostgresCores = Annotated[int | None, typer.Option(help="PostgreSQL cores; default: as needed.", min=1)]
Workers = Annotated[int | None, typer.Option(help="Worker processes; default: as needed.", min=1)]
Headroom = Annotated[float, typer.Option(help="Share of each tier to keep free.", min=0, max=0.95)]
MachineCores = Annotated[int, typer.Option(help="Cores per machine.", min=1, max=1_024)]
FiguresFrom = Annotated[
    list[Path] | None,
    typer.Option("--figures", metavar="FILE", help="Output of `holdfast bench … --json`; repeatable."),
]
CheckAgainst = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Compare with the output of `holdfast rush --json`.")
]
CdnRequests = Annotated[float, typer.Option(help="What a CDN charges for a million requests.", min=0)]
CdnGigabytes = Annotated[float, typer.Option(help="What a CDN charges for a gigabyte.", min=0)]
ReportTo = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")]


@app.command(
    "plan",
    epilog=examples(
        "holdfast plan --users 1000000 --units 10000",
        "holdfast plan --users 50000 --units 500 --engine sqlite --payment wallet",
        "holdfast plan --users 1000000 --units 10000 --api 2 --workers 1",
        "holdfast plan --users 1000000 --units 10000 --report plan.html",
        "holdfast plan --check-against rush.json --figures http.json",
    ),
)
def plan(
    users: Users = None,
    units: Units = None,
    engine: DecidedOn = Engine.REDIS,
    arrival: Arrival = Shape.ALL_AT_ONCE,
    seconds: Over = 60.0,
    opens_after: Opens = 0.0,
    window: Window = WINDOW_MAX_S,
    room: HasRoom = True,
    edge_cache: HasEdge = True,
    rate: Rate = 2_000.0,
    pass_seconds: PassS = 300.0,
    no_show: NoShow = 0.1,
    conversion: Conversion = 0.9,
    browse_seconds: BrowseS = 10.0,
    quantity: Quantity = 1.0,
    instant: Instant = False,
    hold_seconds: HoldS = 300.0,
    abandon: Abandon = 0.1,
    pay_seconds: PayS = 60.0,
    declines: Declines = 0.03,
    payment: PaidBy = Payment.CARD,
    provider_seconds: ProviderS = 1.0,
    edge: EdgeCores = None,
    api: Api = None,
    shards: Shards = None,
    postgres: PostgresCores = None,
    workers: Workers = None,
    headroom: Headroom = 0.3,
    machine_cores: MachineCores = 8,
    figures: FiguresFrom = None,
    cdn_per_million: CdnRequests = _PRICES.per_million_requests,
    cdn_per_gigabyte: CdnGigabytes = _PRICES.per_gigabyte,
    check_against: CheckAgainst = None,
    report: ReportTo = None,
    as_json: AsJson = False,
) -> None:
    """Forecast a sale and size the hardware.

    Simulates the sale from the first arrival to the last unit, using the measured throughput of one core. Reports when
    it sells out, the queue length, waiting times, the machines each tier needs, and the bottleneck, each with its
    derivation. Durations of people are averages.

    With --check-against it takes the facts of a completed rush and prints the forecast next to the measurement; the
    exit status is 1 if they differ by more than 20 %.
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise SettingsError(f"--report: there is no directory {report.absolute().parent}")
    if check_against is not None:
        rushed = read_rush(check_against)
        _check(rushed, _figures(rush_facts(rushed).engine, figures), headroom, report, as_json)
        return
    if users is None or units is None:
        raise SettingsError("--users and --units are required")
    facts = Facts(
        users=users, units=units, engine=engine.value, shape=arrival, over_s=seconds, opens_after_s=opens_after,
        window_s=window, has_room=room, has_edge=edge_cache, rate_per_second=rate, pass_s=pass_seconds, no_show=no_show,
        conversion=conversion, browse_s=browse_seconds, quantity=quantity, is_instant=instant, hold_s=hold_seconds,
        abandon=abandon, pay_s=pay_seconds, declines=declines, payment=payment,
        provider_s=provider_seconds if payment is Payment.CARD else 0.0,
    )  # fmt: skip
    given = _supported(Existing(edge, api, shards, postgres, workers), engine)
    made = make_plan(facts, _figures(engine.value, figures), given, headroom)
    if report is not None:
        write_report(made, report)
    needs = around(made, Prices(cdn_per_million, cdn_per_gigabyte))
    if as_json:
        print_json(body(made) | {"around": to_builtins(needs)})
    else:
        _print(made, needs, machine_cores, report)


def _figures(engine: str, paths: list[Path] | None) -> Figures:
    chosen = measured(engine)
    for path in paths or []:
        chosen = read_figures(chosen, engine, path)
    return chosen


def _supported(given: Existing, engine: Engine) -> Existing:
    """Refuse deployments that an engine does not support."""
    if engine is Engine.SQLITE and max(given.api or 1, given.workers or 1) > 1:
        raise SettingsError("SQLite runs in one process: --api and --workers must be 1")
    if engine is not Engine.REDIS and (given.shards or 1) > 1:
        raise SettingsError("shards need Redis: use --engine redis")
    return given if engine is Engine.REDIS else replace(given, shards=1)


def _print(made: Plan, needs: list[Need], machine_cores: int, report: Path | None) -> None:
    _wrap(headline(made.facts))
    typer.echo()
    print_facts({result.name: result.value for result in results(made)})
    typer.echo()
    _plots(made)
    typer.echo()
    columns = ["tier", "needed", "planned", "machines", "peak load", "headroom"]
    print_table(columns, [_row(tier, machine_cores) for tier in made.tiers])
    short = [tier.name for tier in made.tiers if not tier.is_enough]
    typer.echo(f"\nInsufficient: {', '.join(short)}." if short else "\nSufficient.")
    if short:
        _wrap("Times are lower bounds where a tier is overloaded.")
    first, *others = [limits(tier) for tier in by_utilisation(made.tiers)]
    _section("Bottleneck", [first])
    _section("Next limits", others)
    _section("Around it, by multiplication", [f"{need.name}: {need.value} ({need.follows_from})" for need in needs])
    _section("How the times are derived", [f"{one.name}: {one.follows_from}" for one in results(made)])
    _section("How the machines are derived", [f"{tier.name}: {tier.follows_from}" for tier in made.tiers])
    _section("Measured", list(dict.fromkeys(figure for tier in made.tiers for figure in tier.figures)))
    _section("Assumptions", assumptions(made))
    if report is not None:
        typer.echo(f"\nReport: {report}")


def _row(tier: Tier, machine_cores: int) -> list[object]:
    machines = ceil(tier.given / machine_cores) if tier.unit in ("cores", "processes") else "-"
    return [tier.name, tier.counted, tier.given, machines, f"{tier.used:.0%}", f"{max(1 - tier.used, 0):.0%}"]


def _plots(made: Plan) -> None:
    found = series(made.snapshots)
    for name, words in _PLOTTED.items():
        most = max(found[name], default=0.0)
        if most > 0:
            typer.echo(f"{words.ljust(11)} {sparkline(found[name], 46).ljust(46)} max {most:,.0f}")
    seconds = f"{found['at_s'][-1]:,.0f} s" if found["at_s"] else ""
    typer.echo(f"{'':11} 0{seconds.rjust(45)}")


def _section(title: str, lines: list[str]) -> None:
    typer.echo()
    typer.secho(f"{title}:", bold=True)
    for line in lines:
        _wrap(line, "  ")


def _wrap(line: str, indent: str = "") -> None:
    for row in textwrap.wrap(line, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  "):
        typer.echo(row)


def _check(rushed: MeasuredRush, figures: Figures, headroom: float, report: Path | None, as_json: bool) -> None:
    made = plan_rush(rushed, figures, headroom)
    compared = compare(rushed, made)
    if report is not None:
        write_report(made, report)
    is_within = all(one.is_within is not False for one in compared)
    if as_json:
        print_json({"ok": is_within, "compared": [one.body() for one in compared], "plan": body(made)})
    else:
        _wrap(f"{rushed.scenario.name}: {headline(made.facts)}")
        typer.echo()
        print_table(
            ["", "forecast", "80 % range", "measured", "deviation", ""], [_compared_row(one) for one in compared]
        )
        _section("Bottleneck", [limits(made.bottleneck)])
        if not made.bottleneck.is_enough:
            _section("Overloaded", ["Demand exceeds capacity: forecast times are lower bounds."])
    raise typer.Exit(0 if is_within else 1)


def _compared_row(one: Comparison) -> list[object]:
    deviation = "-" if one.deviation is None else f"{one.deviation:+.0%}"
    verdict = {None: "", True: "within 20 %", False: "not within 20 %"}[one.is_within]
    if one.is_in_range and one.deviation is not None and abs(one.deviation) > WITHIN:
        verdict = "within the range"
    between = "" if one.between is None else f"{one.between[0]:,.0f} to {one.between[1]:,.0f}"
    return [f"{one.name} ({one.unit})", one.predicted, between, one.measured, deviation, verdict]
