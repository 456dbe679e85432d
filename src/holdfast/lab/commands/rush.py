"""`holdfast rush`."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, examples, fail, print_json
from holdfast.errors import SettingsError
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.rush.fleet import merge_parts, read_part, save_part
from holdfast.lab.rush.report.figures import body
from holdfast.lab.rush.report.html_report import write_report
from holdfast.lab.rush.report.live_view import View
from holdfast.lab.rush.report.terminal import print_result
from holdfast.lab.rush.run import Options, run_rush
from holdfast.lab.rush.server.target import Installation, Target, engine_of, start_target
from holdfast.lab.scenarios.scenario import Scenario, built_in_scenarios, load_scenario
from holdfast.settings import Settings, load_settings

app = typer.Typer()

API_PROCESSES_BEHIND_EDGE = 2
_PART = re.compile(r"(\d{1,4})/(\d{1,4})")


ScenarioName = Annotated[
    str,
    typer.Option(metavar="NAME|FILE", help=f"A scenario: {', '.join(built_in_scenarios())}, or a TOML file."),
]
Users = Annotated[int | None, typer.Option(help="Number of buyers; default: from the scenario.", min=1, max=10_000_000)]
Units = Annotated[int | None, typer.Option(help="Units to sell; default: from the scenario.", min=1)]
Seconds = Annotated[
    float | None, typer.Option(help="Seconds over which buyers arrive; default: from the scenario.", min=0, max=86_400)
]
Processes = Annotated[int, typer.Option(help="Processes that simulate buyers.", min=1, max=64)]
Connections = Annotated[int, typer.Option(help="Connections they share.", min=1, max=16_384)]
DecidedOn = Annotated[Engine | None, typer.Option(help="Engine of the server it starts; default: from the settings.")]
Edge = Annotated[
    bool, typer.Option("--edge", help="Put the nginx of `holdfast edge nginx` in front; with --url: URL is an edge.")
]
ApiProcesses = Annotated[
    int | None, typer.Option(help="API processes of the server it starts; default: 1, with --edge 2.", min=1, max=64)
]
Url = Annotated[str | None, typer.Option(metavar="URL", help="A running server; default: start one.")]
Sale = Annotated[str | None, typer.Option(metavar="SALE", help="With --url: an existing sale; default: create one.")]
BuyerSecret = Annotated[
    str | None,
    typer.Option(metavar="SECRET", help="With --url: signs buyer tokens.  [env var: HOLDFAST_BUYER_SECRET]"),
]
PartOf = Annotated[
    str | None,
    typer.Option(metavar="N/M", help="Simulate the Nth of M parts of the crowd, of an existing sale, and save it."),
]
SaveTo = Annotated[Path | None, typer.Option(metavar="FILE", help="With --part: where to save what its buyers saw.")]
StartAt = Annotated[
    datetime | None, typer.Option(formats=["%Y-%m-%dT%H:%M:%SZ"], metavar="TIME", help="Start then (UTC).")
]
Merged = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Check and report these saved parts; once for each.")
]
ReportTo = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")]
Checks = Annotated[bool, typer.Option("--checks/--no-checks", help="Verify the server's records at the end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]
Nice = Annotated[bool, typer.Option("--nice", help="Run at low priority.")]


@app.command(
    "rush",
    epilog=examples(
        "holdfast rush",
        "holdfast rush --users 50000 --units 5000 --report rush.html",
        "holdfast rush --scenario ticket-lottery --engine postgres",
        "holdfast rush --scenario mine.toml --seed 7 --json",
        "holdfast rush --scenario crowd --edge --users 50000 --units 1000",
        "holdfast rush --url http://127.0.0.1:8000 --sale demo --no-checks",
    ),
)
def rush(
    scenario: ScenarioName = "sneaker-drop",
    users: Users = None,
    units: Units = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same buyers.", min=0)] = 1,
    seconds: Seconds = None,
    processes: Processes = 1,
    connections: Connections = 256,
    engine: DecidedOn = None,
    edge: Edge = False,
    api_processes: ApiProcesses = None,
    url: Url = None,
    sale: Sale = None,
    buyer_secret: BuyerSecret = None,
    part: PartOf = None,
    save: SaveTo = None,
    start_at: StartAt = None,
    merge: Merged = None,
    report: ReportTo = None,
    checks: Checks = True,
    quiet: Quiet = False,
    nice: Nice = False,
    as_json: AsJson = False,
) -> None:
    """Load-test a sale with simulated buyers and verify the books.

    Buyers join the queue, poll, buy, click twice, lose responses, hesitate, pay and leave; bots try what bots try. At
    the end the server's records are compared with what each buyer saw: PASS, or FAIL with the violated invariant.

    With --edge the report also says where each buyer was answered: edge cache, edge refusal, server.

    Several hosts: run --part 1/2, --part 2/2, … with the same seed and sale, and --merge what they saved.

    Without --url it starts a server in a temporary directory, with your settings but without your data. With --url,
    set HOLDFAST_SERVICE_KEY and HOLDFAST_BUYER_SECRET to those of that server, and HOLDFAST_BUYER_AUDIENCE and
    HOLDFAST_BUYER_ISSUER if it has them.
    """
    # SIGTERM stops the servers we started, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    chosen = _scenario(scenario, seconds, sale)
    options = Options(
        chosen, users or chosen.users, units or chosen.units, seed, processes, connections, sale or "", checks, nice
    )
    options = _part(options, part, save, start_at)
    _check_writable("--report", report)
    _check_writable("--save", save)
    settings = load_settings(buyer_secret=buyer_secret)
    view = View(is_quiet=quiet)
    try:
        with _target(settings, Wanted(url, engine, edge, api_processes), options) as target, view.shown():
            work = merge_parts(target, [read_part(file) for file in merge]) if merge else None
            result = asyncio.run(work or run_rush(target, options, view.show))
    except BenchFailed as exc:
        fail(str(exc))
    if save is not None:
        save_part(result, save)
    if report is not None:
        write_report(result, report)
    if as_json:
        print_json(body(result))
    elif not quiet:
        print_result(result, report)
    raise typer.Exit(0 if result.ok else 1)


def _scenario(given: str, seconds: float | None, sale: str | None) -> Scenario:
    scenario = load_scenario(given)
    if seconds is not None:
        scenario = replace(scenario, arrival=replace(scenario.arrival, over_seconds=seconds))
    if sale is not None:
        scenario = replace(scenario, sale=replace(scenario.sale, opens_after_seconds=0))
    return scenario


def _part(options: Options, part: str | None, save: Path | None, start_at: datetime | None) -> Options:
    starts_at = None if start_at is None else start_at.replace(tzinfo=UTC).timestamp()
    if part is None and save is None:
        return replace(options, starts_at=starts_at)
    found = _PART.fullmatch(part or "")
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        raise SettingsError("--part and --save go together: for the second of three parts, --part 2/3 --save FILE")
    if not options.sale_id:
        raise SettingsError("--part needs --sale, which all parts buy in")
    return replace(options, part=int(found[1]) - 1, parts=int(found[2]), checks=False, starts_at=starts_at)


def _check_writable(option: str, path: Path | None) -> None:
    """Fails before the rush instead of after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise SettingsError(f"{option}: there is no directory {path.absolute().parent}")


class Wanted(Struct, frozen=True):
    url: str | None
    engine: Engine | None
    has_edge: bool
    api_processes: int | None


@contextmanager
def _target(settings: Settings, wanted: Wanted, options: Options) -> Iterator[Target]:
    if wanted.url is None:
        if options.sale_id:
            raise SettingsError("--sale needs --url, the server that has the sale")
        installation = Installation(
            wanted.engine or engine_of(settings),
            options.scenario.sale.payment == "sandbox",
            wanted.has_edge,
            wanted.api_processes or (API_PROCESSES_BEHIND_EDGE if wanted.has_edge else 1),
        )
        with start_target(installation, settings) as target:
            yield target
        return
    for option, given in (("--engine", wanted.engine), ("--api-processes", wanted.api_processes)):
        if given is not None:
            raise SettingsError(f"{option} applies only without --url: a running server has its own")
    yield replace(_running_target(settings, wanted.url, options), has_edge=wanted.has_edge)


def _running_target(settings: Settings, url: str, options: Options) -> Target:
    if settings.buyer_jwks_url:
        raise SettingsError(
            "buyer tokens are verified with published keys (HOLDFAST_BUYER_JWKS_URL): a rush cannot sign them"
        )
    secret = settings.buyer_secret.get_secret_value() or _kept(settings, "buyer_secret")
    if not secret:
        raise SettingsError(
            "set HOLDFAST_BUYER_SECRET or --buyer-secret to the server's secret: it signs the buyers' tokens"
        )
    key = settings.service_key.get_secret_value() or _kept(settings, "service_key")
    if not key and (options.checks or not options.sale_id):
        raise SettingsError(
            "set HOLDFAST_SERVICE_KEY to a key of that server: it creates the sale, funds wallets and reads records "
            "(not needed with --sale and --no-checks)"
        )
    return Target(url.rstrip("/"), secret, key, settings.payment_sandbox_url, buyer_claims=settings.buyer_claims)


def _kept(settings: Settings, name: str) -> str:
    """A generated secret in the data directory, if there is one."""
    path = settings.data / name
    return path.read_text().strip() if path.is_file() else ""
