"""`holdfast pools`."""

from typing import Annotated

import typer
from msgspec import to_builtins

from holdfast.cli.ledger import is_new, run, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_json, print_table
from holdfast.cli.times import clock_time
from holdfast.domain.stock.command import Command, Provision, Restock, Verdict
from holdfast.domain.stock.limits import MAX_QUANTITY, MAX_TOTAL_UNITS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules, is_sku_id
from holdfast.domain.stock.shards import MAX_SHARDS
from holdfast.errors import SettingsError
from holdfast.gate.audit import PoolReport
from holdfast.gate.engine import Engine
from holdfast.http.contract.schemas.inventory import PoolOut, ReconciliationOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.queries import PoolView, pool_queries
from holdfast.settings import Settings

app = typer.Typer(
    help="Show pools and change their stock.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast pools create demo --units 500", "holdfast pools list", "holdfast pools restock demo --units 100"
    ),
)

LIST_LIMIT = 10_000


def checked_id(text: str, kind: str) -> str:
    if not is_sku_id(text):
        raise SettingsError(
            f"{text!r} is not a valid {kind}: use at most 100 letters, digits and . _ : ~ -, "
            "starting with a letter or digit"
        )
    return text


def _sku_id(text: str) -> str:
    return checked_id(text, "SKU ID")


Sku = Annotated[str, typer.Argument(help="The SKU ID.", metavar="SKU", callback=_sku_id)]


@app.command("list", epilog=examples("holdfast pools list", "holdfast pools list --json | jq '.data[].sku_id'"))
def list_pools(data: Data = None, as_json: AsJson = False) -> None:
    """List all pools with available, held and sold units."""
    settings = settings_from(data)
    views = [] if is_new(settings) else run(settings, lambda database: _views(database, None))
    if as_json:
        print_json({"data": to_builtins([PoolOut.of(view) for view in views])})
    elif views:
        _print(views)
    else:
        typer.echo(f"No pools in {shown_url(settings)} yet.")
        typer.echo("Create one with: holdfast pools create SKU --units 500")


@app.command("show", epilog=examples("holdfast pools show demo", "holdfast pools show demo --json"))
def show(sku_id: Sku, data: Data = None, as_json: AsJson = False) -> None:
    """Show one pool."""
    settings = settings_from(data)
    views = [] if is_new(settings) else run(settings, lambda database: _views(database, sku_id))
    if not views:
        fail(f"there is no pool {sku_id} in {shown_url(settings)}", "List them with: holdfast pools list")
    _show(views[0], as_json)


@app.command(
    "create",
    epilog=examples(
        "holdfast pools create demo --units 500",
        "holdfast pools create sneaker-42 --units 500 --per-owner-limit 2",
        "holdfast pools create on-sale --units 100000 --shards 4",
    ),
)
def create(
    sku_id: Sku,
    units: Annotated[int, typer.Option(help="Units to sell.", min=0, max=MAX_TOTAL_UNITS, metavar="N")],
    per_owner_limit: Annotated[
        int | None, typer.Option(help="Maximum units per owner.", min=1, max=MAX_QUANTITY, metavar="N")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Redis only: number of shards; cannot be changed later.", min=1, max=MAX_SHARDS, metavar="N"),
    ] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Keep an existing pool unchanged.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a pool."""
    settings = settings_from(data)
    if shards not in (None, 1) and not settings.has_redis:
        raise SettingsError("--shards needs Redis as the gate (HOLDFAST_REDIS_URL)")
    wanted = Provision(units, Rules(per_owner_limit=per_owner_limit), only_if_missing=True, shards=shards)
    verdict = run_engine(settings, lambda _, engine: _apply(engine, sku_id, wanted))
    if verdict.shards is not None:
        fail(f"pool {sku_id} has {verdict.shards} shards, and the number of shards cannot be changed")
    if verdict.outcome is Outcome.ALREADY and not if_missing:
        fail(f"pool {sku_id} already exists", f"Change its stock with: holdfast pools restock {sku_id} --units N")
    if verdict.outcome is Outcome.ALREADY:
        typer.echo(f"Pool {sku_id} already exists and was not changed.", err=True)
    _show_verdict(verdict, as_json)


@app.command(
    "restock", epilog=examples("holdfast pools restock demo --units 100", "holdfast pools restock demo --units -20")
)
def restock(
    sku_id: Sku,
    units: Annotated[int, typer.Option(help="Units to add; a negative number removes available units.", metavar="N")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add units to a pool, or remove available ones."""
    settings = settings_from(data)
    if abs(units) > MAX_TOTAL_UNITS:
        raise SettingsError(f"a pool has at most {MAX_TOTAL_UNITS:,} units")
    verdict = run_engine(settings, lambda _, engine: _apply(engine, sku_id, Restock(units)))
    if not verdict.outcome.is_success:
        fail(*_refusal(verdict, sku_id, settings))
    _show_verdict(verdict, as_json)


@app.command("check", epilog=examples("holdfast pools check", "holdfast pools check --json | jq .ok"))
def check(data: Data = None, as_json: AsJson = False) -> None:
    """Check every pool, and that gate and ledger agree.

    Counts every reservation. In Redis mode a pool that disagrees with the ledger is rebuilt from it; an inconsistent
    ledger is only reported. Exits with 1 if there are findings.
    """
    settings = settings_from(data)
    reports = [] if is_new(settings) else list(run_engine(settings, _reports).values())
    body = to_builtins(ReconciliationOut.of(reports))
    if as_json:
        print_json(body)
    elif reports:
        _print_reports(reports)
    else:
        typer.echo(f"No pools in {shown_url(settings)} yet.")
    if not body["ok"]:
        raise typer.Exit(1)


async def _reports(_database: Database, engine: Engine) -> dict[str, PoolReport]:
    return await engine.reconciler.pass_once(thorough=True)


def _print_reports(reports: list[PoolReport]) -> None:
    rows = [
        (
            report.sku_id,
            report.finding or "ok",
            report.ledger.pool.total,
            report.ledger.pool.held,
            report.ledger.pool.sold,
            report.in_transfer if report.shards else None,
            report.ledger.at.epoch or None,
            None if report.gate is None and not report.shards else report.journal_lag,
        )
        for report in reports
    ]
    print_table(
        ["sku id", "finding", "total", "held", "sold", "in transfer", "epoch", "journal lag"], rows, folded="sku id"
    )


def _refusal(verdict: Verdict, sku_id: str, settings: Settings) -> tuple[str, str]:
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        return (
            f"there is no pool {sku_id} in {shown_url(settings)}",
            f"Create one with: holdfast pools create {sku_id} --units N",
        )
    if verdict.outcome is Outcome.INSUFFICIENT:
        return f"only {verdict.available} units are available; held and sold units cannot be removed", ""
    if verdict.outcome is Outcome.ILLEGAL:
        return f"a pool has at most {MAX_TOTAL_UNITS:,} units", ""
    return f"the pool refused: {verdict.outcome}", ""


def _show_verdict(verdict: Verdict, as_json: bool) -> None:
    """Show the pool from the verdict. Reading it again could fail and make a successful change look like a failure."""
    assert verdict.pool is not None
    _show(PoolView(verdict.pool), as_json)


def _show(view: PoolView, as_json: bool) -> None:
    if as_json:
        print_json(to_builtins(PoolOut.of(view)))
    else:
        _print([view])


def _print(views: list[PoolView]) -> None:
    rows = [
        (
            view.pool.sku_id,
            view.pool.availability,
            view.pool.available,
            view.pool.held,
            view.pool.sold,
            view.pool.total,
            view.pool.rules.per_owner_limit,
            clock_time(view.next_return_at),
        )
        for view in views
    ]
    print_table(
        ["sku id", "state", "available", "held", "sold", "total", "limit", "next return"], rows, folded="sku id"
    )


async def _views(database: Database, sku_id: str | None) -> list[PoolView]:
    queries = pool_queries(database.dialect_name)
    if sku_id is None:
        return await database.read(lambda c: queries.all_views(c, database.now_ms(c), limit=LIST_LIMIT))
    found = await database.read(lambda c: queries.view(c, sku_id, database.now_ms(c)))
    return [] if found is None else [found]


async def _apply(engine: Engine, sku_id: str, command: Command) -> Verdict:
    [verdict] = await engine.gate.apply(sku_id, [command])
    return verdict
