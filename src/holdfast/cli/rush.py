"""`holdfast rush`."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from holdfast.bench.failure import BenchFailed
from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table
from holdfast.errors import SettingsError
from holdfast.rush.figures import body, figures_of
from holdfast.rush.rehearsal import Options, Rushed, rehearse
from holdfast.rush.report import write_report
from holdfast.rush.scenario import Scenario, load_scenario, ready_made
from holdfast.rush.site import Site, engine_of, own_site
from holdfast.rush.view import View
from holdfast.settings import Settings, load_settings

app = typer.Typer()


Scene = Annotated[
    str,
    typer.Option(metavar="NAME|FILE", help=f"What is sold, and who comes: {', '.join(ready_made())}, or a file."),
]
Users = Annotated[int | None, typer.Option(help="Buyers; default: as in the scenario.", min=1, max=10_000_000)]
Units = Annotated[int | None, typer.Option(help="Units for sale; default: as in the scenario.", min=1)]
Seconds = Annotated[
    float | None, typer.Option(help="Over how long they come; default: as in the scenario.", min=0, max=86_400)
]
Processes = Annotated[int, typer.Option(help="Processes that play the crowd.", min=1, max=64)]
Connections = Annotated[int, typer.Option(help="Connections they share.", min=1, max=16_384)]
DecidedOn = Annotated[
    Engine | None, typer.Option(help="Engine of the server that is started; default: that of the settings.")
]
Url = Annotated[str | None, typer.Option(metavar="URL", help="A server that runs; without it one is started for this.")]
Sale = Annotated[str | None, typer.Option(metavar="SALE", help="With --url: a sale that is there; else one is made.")]
BuyerSecret = Annotated[
    str | None,
    typer.Option(metavar="SECRET", help="With --url: signs buyers' tokens.  [env var: HOLDFAST_BUYER_SECRET]"),
]
ReportTo = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with plots, one HTML file.")]
Checks = Annotated[bool, typer.Option("--checks/--no-checks", help="Check the server's books in the end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show nothing on the way.")]
Nice = Annotated[bool, typer.Option("--nice", help="Let everything else on this machine go first.")]


@app.command(
    "rush",
    epilog=examples(
        "holdfast rush",
        "holdfast rush --users 50000 --units 5000 --report rush.html",
        "holdfast rush --scenario ticket-lottery --engine postgres",
        "holdfast rush --scenario mine.toml --seed 7 --json",
        "holdfast rush --url http://127.0.0.1:8000 --sale demo --no-checks",
    ),
)
def rush(
    scenario: Scene = "sneaker-drop",
    users: Users = None,
    units: Units = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same crowd.", min=0)] = 1,
    seconds: Seconds = None,
    processes: Processes = 1,
    connections: Connections = 256,
    engine: DecidedOn = None,
    url: Url = None,
    sale: Sale = None,
    buyer_secret: BuyerSecret = None,
    report: ReportTo = None,
    checks: Checks = True,
    quiet: Quiet = False,
    nice: Nice = False,
    as_json: AsJson = False,
) -> None:
    """Let a simulated crowd loose on a sale, and check the books.

    Buyers join the line, poll, buy, click twice, lose answers, hesitate, pay, leave; bots try what bots try. In the
    end the server's books are checked against what each of them saw: PASS, or FAIL with the invariant that was broken.

    Without --url a server is started in a temporary place, with your settings but not your data: nothing of yours is
    touched. With --url set HOLDFAST_SERVICE_KEY and HOLDFAST_BUYER_SECRET to those of that server.
    """
    # Stopped from outside, we stop the servers we started just as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    chosen = _scenario(scenario, seconds, sale)
    options = Options(
        chosen, users or chosen.users, units or chosen.units, seed, processes, connections, sale or "", checks, nice
    )
    _check_report(report)
    settings = load_settings(buyer_secret=buyer_secret)
    view = View(is_quiet=quiet)
    try:
        with _site(settings, url, engine, options) as site, view.shown():
            rushed = asyncio.run(rehearse(site, options, view.show))
    except BenchFailed as exc:
        complain(str(exc))
        raise typer.Exit(1) from exc
    if report is not None:
        write_report(rushed, report)
    if as_json:
        print_json(body(rushed))
    elif not quiet:
        _print(rushed, report)
    raise typer.Exit(0 if rushed.ok else 1)


def _scenario(given: str, seconds: float | None, sale: str | None) -> Scenario:
    scenario = load_scenario(given)
    if seconds is not None:
        scenario = replace(scenario, arrival=replace(scenario.arrival, over_seconds=seconds))
    if sale is not None:
        scenario = replace(scenario, sale=replace(scenario.sale, opens_after_seconds=0))
    return scenario


def _check_report(report: Path | None) -> None:
    """Now, and not after the rush."""
    if report is not None and not report.absolute().parent.is_dir():
        raise SettingsError(f"--report: there is no directory {report.absolute().parent}")


@contextmanager
def _site(settings: Settings, url: str | None, engine: Engine | None, options: Options) -> Iterator[Site]:
    if url is None:
        if options.sale_id:
            raise SettingsError("--sale is for a server that runs: give its --url")
        needs_sandbox = options.scenario.sale.payment == "sandbox"
        with own_site(engine or engine_of(settings), settings, needs_sandbox=needs_sandbox) as site:
            yield site
        return
    if engine is not None:
        raise SettingsError("--engine is for a server that is started for the rush; the one at --url has its own")
    yield _running_site(settings, url, options)


def _running_site(settings: Settings, url: str, options: Options) -> Site:
    if settings.buyer_jwks_url:
        raise SettingsError("buyers' tokens are verified with published keys here, so the crowd cannot sign its own")
    secret = settings.buyer_secret.get_secret_value() or _kept(settings, "buyer_secret")
    if not secret:
        raise SettingsError(
            "the crowd signs its buyers' tokens: set HOLDFAST_BUYER_SECRET or --buyer-secret to the server's secret"
        )
    key = settings.service_key.get_secret_value() or _kept(settings, "service_key")
    if not key and (options.checks or not options.sale_id):
        raise SettingsError(
            "set HOLDFAST_SERVICE_KEY to a key of that server: it makes the sale, fills wallets and reads the books "
            "(a crowd on a sale that is there, with --sale and --no-checks, may do without)"
        )
    return Site(url.rstrip("/"), secret, key, settings.payment_sandbox_url)


def _kept(settings: Settings, name: str) -> str:
    """What a server beside us made for itself, if there is one."""
    path = settings.data / name
    return path.read_text().strip() if path.is_file() else ""


def _print(rushed: Rushed, report: Path | None) -> None:
    figures = figures_of(rushed)
    rows = [("+" if one.ok else "x", one.name, one.looked_at, one.count, one.means) for one in rushed.findings]
    if rows:
        print_table(["", "check", "looked at", "found", "what it means"], rows, folded="what it means")
    for finding in rushed.findings:
        for example in finding.examples:
            complain(f"{finding.name}: {example}")
    latency = figures["latency_ms"].get("purchase", {"p50": 0, "p99": 0})
    typer.echo(
        f"\n{figures['users']:,} buyers, {figures['attempts']:,} attempts, {figures['requests']:,} requests in "
        f"{figures['seconds']:,.1f} s (peaks {figures['attempts_per_second_peak']:,.0f} attempts/s, "
        f"{figures['requests_per_second_peak']:,.0f} requests/s); purchases p50 {latency['p50']:,.1f} ms, "
        f"p99 {latency['p99']:,.1f} ms; seed {rushed.options.seed}"
    )
    if report is not None:
        typer.echo(f"Report: {report}")
    typer.echo(verdict(rushed))


def verdict(rushed: Rushed) -> str:
    if not rushed.findings:
        return "Not checked."
    failed = [finding.name for finding in rushed.findings if not finding.ok]
    return f"FAIL: {', '.join(failed)}." if failed else f"PASS: all {len(rushed.findings)} checks hold."
