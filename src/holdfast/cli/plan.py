"""`holdfast plan`."""

import textwrap
from math import ceil
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, examples, print_facts, print_json, print_table
from holdfast.errors import SettingsError
from holdfast.plan.check import WITHIN, Compared, Rushed, compare, facts_of_rush, read_rush, replan
from holdfast.plan.facts import WINDOW_MAX_S, Facts, Payment
from holdfast.plan.figures import Figures, measured, read_figures
from holdfast.plan.making import Given, Plan, make_plan
from holdfast.plan.report import write_report
from holdfast.plan.sparkline import sparkline
from holdfast.plan.tiers import Tier, breaking
from holdfast.plan.told import assumptions, body, breaks, heading, results, series
from holdfast.rush.scenario import Shape

app = typer.Typer()

_WIDTH = 80
_PLOTTED = {"waiting": "in line", "held": "held", "sold": "sold", "attempts_per_second": "attempts/s"}

Users = Annotated[int | None, typer.Option(help="People who come.", min=1, max=10_000_000)]
Units = Annotated[int | None, typer.Option(help="Units for sale.", min=1, max=10_000_000)]
DecidedOn = Annotated[Engine, typer.Option(help="Where stock is decided.")]
Arrival = Annotated[Shape, typer.Option(help="How they come: evenly, more and more, or at random.")]
Over = Annotated[float, typer.Option("--seconds", help="Over how long they come.", min=0, max=86_400)]
Opens = Annotated[float, typer.Option(help="The sale opens so long after the first came.", min=0, max=86_400)]
Window = Annotated[float, typer.Option(help="For how long it is open.", min=1, max=WINDOW_MAX_S)]
HasRoom = Annotated[bool, typer.Option("--room/--no-room", help="A waiting room in front.")]
HasEdge = Annotated[bool, typer.Option("--edge-cache/--no-edge-cache", help="A cache in front answers `now`.")]
Rate = Annotated[float, typer.Option(help="People called from the line per second.", min=1, max=1_000_000)]
PassS = Annotated[float, typer.Option("--pass-seconds", help="How long a pass is good for.", min=1, max=86_400)]
NoShow = Annotated[float, typer.Option(help="Share of those called who do not come.", min=0, max=1)]
Conversion = Annotated[float, typer.Option(help="Share of those let in who buy.", min=0, max=1)]
BrowseS = Annotated[float, typer.Option("--browse-seconds", help="From the pass to the purchase.", min=0, max=3_600)]
Quantity = Annotated[float, typer.Option(help="Units that one buyer takes.", min=1, max=1_000_000)]
Instant = Annotated[bool, typer.Option("--instant", help="No cart: paid for at once.")]
HoldS = Annotated[float, typer.Option("--hold-seconds", help="How long a cart is held.", min=1, max=1_800)]
Abandon = Annotated[float, typer.Option(help="Share of carts that are let lapse.", min=0, max=1)]
PayS = Annotated[float, typer.Option("--pay-seconds", help="From the cart to paying.", min=0, max=3_600)]
Declines = Annotated[float, typer.Option(help="Share of payments that fail.", min=0, max=1)]
PaidBy = Annotated[Payment, typer.Option(help="Who takes the money.")]
ProviderS = Annotated[
    float, typer.Option("--provider-seconds", help="How long a card payment takes the provider.", min=0, max=600)
]
EdgeCores = Annotated[int | None, typer.Option(help="Cores of the edge; default: as needed.", min=1)]
Api = Annotated[int | None, typer.Option(help="Server processes; default: as needed.", min=1)]
Shards = Annotated[int | None, typer.Option(help="Redis shards; default: as needed.", min=1)]
PostgresCores = Annotated[int | None, typer.Option(help="Cores of PostgreSQL; default: as needed.", min=1)]
Workers = Annotated[int | None, typer.Option(help="Worker processes; default: as needed.", min=1)]
Headroom = Annotated[float, typer.Option(help="Share of each tier that is kept free.", min=0, max=0.95)]
MachineCores = Annotated[int, typer.Option(help="Cores of one machine.", min=1, max=1_024)]
FiguresFrom = Annotated[
    list[Path] | None,
    typer.Option("--figures", metavar="FILE", help="What `holdfast bench … --json` printed here; may be repeated."),
]
CheckAgainst = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Compare with a rush: what `holdfast rush --json` printed.")
]
ReportTo = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with plots, one HTML file.")]


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
    check_against: CheckAgainst = None,
    report: ReportTo = None,
    as_json: AsJson = False,
) -> None:
    """Say how a sale will go, and what machines it takes.

    Simulates the sale from the first arrival to the last unit with what one core was measured to do, and says when it
    is sold out, how long the line gets, how long people wait, how many machines each tier takes, and which gives way
    first. Each number says what it follows from. Times of people are averages.

    With --check-against the facts are those of a rush that took place, and what was predicted is printed beside what
    was measured; the exit status is 1 if they are more than 20 % apart.
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise SettingsError(f"--report: there is no directory {report.absolute().parent}")
    if check_against is not None:
        rushed = read_rush(check_against)
        _check(rushed, _figures(facts_of_rush(rushed).engine, figures), headroom, report, as_json)
        return
    if users is None or units is None:
        raise SettingsError("say who comes and for how much: --users and --units")
    facts = Facts(
        users=users, units=units, engine=engine.value, shape=arrival, over_s=seconds, opens_after_s=opens_after,
        window_s=window, has_room=room, has_edge=edge_cache, rate_per_second=rate, pass_s=pass_seconds, no_show=no_show,
        conversion=conversion, browse_s=browse_seconds, quantity=quantity, is_instant=instant, hold_s=hold_seconds,
        abandon=abandon, pay_s=pay_seconds, declines=declines, payment=payment,
        provider_s=provider_seconds if payment is Payment.CARD else 0.0,
    )  # fmt: skip
    given = _possible(Given(edge, api, shards, postgres, workers), engine)
    made = make_plan(facts, _figures(engine.value, figures), given, headroom)
    if report is not None:
        write_report(made, report)
    if as_json:
        print_json(body(made))
    else:
        _print(made, machine_cores, report)


def _figures(engine: str, paths: list[Path] | None) -> Figures:
    chosen = measured(engine)
    for path in paths or []:
        chosen = read_figures(chosen, engine, path)
    return chosen


def _possible(given: Given, engine: Engine) -> Given:
    """One of each is all there can be of some."""
    if engine is Engine.SQLITE and max(given.api or 1, given.workers or 1) > 1:
        raise SettingsError("with SQLite one process serves and does the work: --api and --workers are 1")
    if engine is not Engine.REDIS and (given.shards or 1) > 1:
        raise SettingsError("a pool is split into shards only in Redis: use --engine redis")
    return given if engine is Engine.REDIS else replace(given, shards=1)


def _print(made: Plan, machine_cores: int, report: Path | None) -> None:
    _say(heading(made.facts))
    typer.echo()
    print_facts({result.name: result.value for result in results(made)})
    typer.echo()
    _plots(made)
    typer.echo()
    columns = ["tier", "needed", "planned", "machines", "busy at peak", "to spare"]
    print_table(columns, [_row(tier, machine_cores) for tier in made.tiers])
    short = [tier.name for tier in made.tiers if not tier.is_enough]
    typer.echo(f"\nNot enough: {', '.join(short)}." if short else "\nEnough.")
    if short:
        _say("Times are the least to expect where a tier is asked for more than it can do.")
    first, *others = [breaks(tier) for tier in breaking(made.tiers)]
    _section("Gives way first", [first])
    _section("Then", others)
    _section("What the times follow from", [f"{one.name}: {one.follows_from}" for one in results(made)])
    _section("What the machines follow from", [f"{tier.name}: {tier.follows_from}" for tier in made.tiers])
    _section("Measured", list(dict.fromkeys(figure for tier in made.tiers for figure in tier.figures)))
    _section("Assumed", assumptions(made))
    if report is not None:
        typer.echo(f"\nReport: {report}")


def _row(tier: Tier, machine_cores: int) -> list[object]:
    machines = ceil(tier.given / machine_cores) if tier.unit in ("cores", "processes") else "-"
    return [tier.name, tier.counted, tier.given, machines, f"{tier.used:.0%}", f"{max(1 - tier.used, 0):.0%}"]


def _plots(made: Plan) -> None:
    found = series(made.moments)
    for name, words in _PLOTTED.items():
        most = max(found[name], default=0.0)
        if most > 0:
            typer.echo(f"{words.ljust(11)} {sparkline(found[name], 46).ljust(46)} {most:,.0f} at most")
    seconds = f"{found['at_s'][-1]:,.0f} s" if found["at_s"] else ""
    typer.echo(f"{'':11} 0{seconds.rjust(45)}")


def _section(title: str, lines: list[str]) -> None:
    typer.echo()
    typer.secho(f"{title}:", bold=True)
    for line in lines:
        _say(line, "  ")


def _say(line: str, indent: str = "") -> None:
    for row in textwrap.wrap(line, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  "):
        typer.echo(row)


def _check(rushed: Rushed, figures: Figures, headroom: float, report: Path | None, as_json: bool) -> None:
    made = replan(rushed, figures, headroom)
    compared = compare(rushed, made)
    if report is not None:
        write_report(made, report)
    is_within = all(one.is_within is not False for one in compared)
    if as_json:
        print_json({"ok": is_within, "compared": [one.body() for one in compared], "plan": body(made)})
    else:
        _say(f"{rushed.scenario.name}: {heading(made.facts)}")
        typer.echo()
        print_table(
            ["", "predicted", "four of five", "measured", "deviation", ""], [_compared_row(one) for one in compared]
        )
        _section("Gives way first", [breaks(made.breaks_first)])
        if not made.breaks_first.is_enough:
            _section("Beyond its limits", ["More was asked than can be answered: predicted times are the least."])
    raise typer.Exit(0 if is_within else 1)


def _compared_row(one: Compared) -> list[object]:
    deviation = "-" if one.deviation is None else f"{one.deviation:+.0%}"
    verdict = {None: "", True: "within 20 %", False: "not within 20 %"}[one.is_within]
    if one.is_in_range and one.deviation is not None and abs(one.deviation) > WITHIN:
        verdict = "in the range"
    between = "" if one.between is None else f"{one.between[0]:,.0f} to {one.between[1]:,.0f}"
    return [f"{one.name} ({one.unit})", one.predicted, between, one.measured, deviation, verdict]
