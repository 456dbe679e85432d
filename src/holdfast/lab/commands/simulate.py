"""`holdfast simulate`."""

from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import AsJson, examples, print_json, show_progress

if TYPE_CHECKING:
    from holdfast.lab.simulate.many import Result

app = typer.Typer()

SHOWN_MAX = 3


class EngineName(StrEnum):
    SQL = "sql"
    REDIS = "redis"


@app.command(
    "simulate",
    epilog=examples(
        "holdfast simulate --seeds 1000",
        "holdfast simulate --seed 4711",
        "holdfast simulate --seeds 1000 --first 50000 --engine redis",
        "holdfast simulate --seeds 1000 --json | jq '.failed[].seed'",
    ),
)
def simulate(
    seed: Annotated[int | None, typer.Option(help="Replay this one run, exactly.", min=0, metavar="N")] = None,
    seeds: Annotated[int, typer.Option(help="Number of runs, one per seed.", min=1, metavar="N")] = 100,
    first: Annotated[int, typer.Option(help="The first seed.", min=0, metavar="N")] = 0,
    engine: Annotated[EngineName, typer.Option(help="Where stock is decided.")] = EngineName.SQL,
    trace: Annotated[bool, typer.Option(help="With --seed: print everything that happened.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate whole sales with injected faults, to find bugs.

    Each run is one sale: several API processes and workers, a ledger, a payment provider and buyers, all in one process
    and without real time, running the product's own code. Its seed decides everything, so a run that fails can be
    replayed exactly. A failing run is repeated with fewer and fewer faults, and shown with the fewest it needs.

    Exit status: 0 if every invariant held in every run, 1 if not. With --json failed runs are named, not explained.
    """
    if as_json and trace:
        raise typer.BadParameter("--trace and --json exclude each other")
    if as_json:
        results = _run_all(first, seeds, engine) if seed is None else _run_all(seed, 1, engine)
        failed = [{"seed": one.seed, "violations": one.violations} for one in results if one.violations]
        print_json({"ok": not failed, "runs": len(results), "failed": failed})
        raise typer.Exit(1 if failed else 0)
    if seed is not None:
        raise typer.Exit(_replay(seed, engine, is_traced=trace))
    raise typer.Exit(_run_many(first, seeds, engine))


def _replay(seed: int, engine: EngineName, *, is_traced: bool) -> int:
    from holdfast.lab.simulate.run import run  # noqa: PLC0415 - keeps --help fast

    report = run(seed, engine=engine)
    if is_traced:
        typer.echo("\n".join(report.trace.lines))
    if not report.ok:
        typer.echo(_explained(seed, engine))
        return 1
    scenario = report.scenario
    typer.echo(
        f"Seed {seed} holds: {scenario.units} units, {len(scenario.shoppers)} buyers, {len(report.faults)} faults, "
        f"{report.simulated_s:.1f} simulated seconds, digest {report.trace.digest}."
    )
    return 0


def _explained(seed: int, engine: EngineName) -> str:
    from holdfast.lab.simulate.explain import explain  # noqa: PLC0415 - keeps --help fast
    from holdfast.lab.simulate.run import run  # noqa: PLC0415
    from holdfast.lab.simulate.shrink import shrink  # noqa: PLC0415

    report = shrink(run(seed, engine=engine), lambda faults: run(seed, faults, engine))
    return explain(report, engine)


def _run_many(first: int, count: int, engine: EngineName) -> int:
    started = monotonic()
    results = _run_all(first, count, engine)
    failed = [result for result in results if result.violations]
    for result in failed[:SHOWN_MAX]:
        typer.echo(_explained(result.seed, engine) + "\n")
    per_minute = len(results) / (monotonic() - started) * 60
    typer.echo(f"{len(results):,} runs from seed {first}, {per_minute:,.0f} per minute: {len(failed)} failed.")
    for result in failed[SHOWN_MAX:]:
        typer.echo(f"  holdfast simulate --seed {result.seed} --engine {engine}   {result.violations[0][:120]}")
    return 1 if failed else 0


def _run_all(first: int, count: int, engine: EngineName) -> list["Result"]:
    from holdfast.lab.simulate.many import run_many  # noqa: PLC0415 - keeps --help fast

    results: list[Result] = []
    failed = 0
    for result in run_many(first, count, engine):
        results.append(result)
        failed += bool(result.violations)
        show_progress(f"{len(results):,} of {count:,} runs, {failed} failed")
    show_progress("")
    return results
