"""`holdfast bench`."""

import signal
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from holdfast.bench.failure import BenchFailed
from holdfast.bench.gate import bench_gate
from holdfast.bench.http import Plan, bench_http, choose_driver
from holdfast.bench.redis import bench_redis_gate
from holdfast.bench.report import COLUMNS, Report
from holdfast.bench.room import bench_room
from holdfast.bench.settlement import bench_settlement
from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table

app = typer.Typer(
    help="Measure this machine: Holdfast beside the usual ways of doing it, in one run, on engines it starts itself.",
    epilog=examples(
        "holdfast bench gate                       the gate on a SQLite file, beside PostgreSQL per request",
        "holdfast bench gate --engine postgres     the gate on PostgreSQL, beside the same",
        "holdfast bench http                       the server over sockets, beside a Redis tutorial",
        "holdfast bench room                       people who get in line, and looks at `now`",
    ),
    no_args_is_help=True,
)


class Driver(StrEnum):
    WRK = "wrk"
    OWN = "own"


Seconds = Annotated[
    float,
    typer.Option(help="Seconds per figure, in up to three interleaved rounds; the median is given.", min=0.1, max=600),
]
DecidedOn = Annotated[Engine, typer.Option(help="The engine on which Holdfast decides.")]


@app.command(
    "gate",
    epilog=examples(
        "holdfast bench gate --seconds 10                       steadier figures",
        "holdfast bench gate --engine postgres --json           for a program to compare",
        "holdfast bench gate --engine redis                     batches into Valkey, beside one call per command",
    ),
)
def gate(engine: DecidedOn = Engine.SQLITE, seconds: Seconds = 3.0, as_json: AsJson = False) -> None:
    """Durable reservations per second, without HTTP.

    holdfast_1 to holdfast_1024 are reservations with so many commands waiting at any time; `holdfast` is 256 of them,
    `holdfast_keyed` the same with idempotency keys, `holdfast_limited` the same with a limit per owner, `sold_out` the
    refusals of an empty pool (`sold_out_keyed`: with keys).

    Beside them, in turns and always on a PostgreSQL started for this, the usual ways to take a hot counter, one
    transaction per request: conditional_update (UPDATE … WHERE available >= 1), for_update (SELECT … FOR UPDATE) and
    skip_locked (a row per unit; the better of 16 and 64 clients). "ours ÷ that" is `holdfast` divided by each.

    With --engine redis the others are on Valkey: call_per_command, the same function with one command per call through
    the same client, and unbatched, the same from bare sockets; each also on a server that keeps nothing (no_fsync).

    Every yes waits for the disk, on both sides. After each round the database is asked whether it holds what was
    counted; if it does not, the command says so and exits with 1.
    """
    _report(lambda: bench_redis_gate(seconds) if engine is Engine.REDIS else bench_gate(engine, seconds), as_json)


@app.command(
    "http",
    epilog=examples(
        "holdfast bench http --driver own                       without wrk, by a driver of our own",
        "holdfast bench http --attempts 1000000                 is memory flat over a million attempts?",
        "holdfast bench http --engine postgres --connections 64",
    ),
)
def http(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Seconds = 3.0,
    connections: Annotated[int, typer.Option(help="Connections kept open by the driver.", min=1, max=4096)] = 256,
    driver: Annotated[
        Driver | None, typer.Option(help="Who sends the requests; wrk if it is installed, by default.")
    ] = None,
    attempts: Annotated[
        int, typer.Option(help="Drive so many more attempts and tell the server's memory at every tenth.", min=0)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Requests per second and latency of the real server over sockets.

    `holdfast` are accepted reservations, `holdfast_keyed` the same with idempotency keys, `sold_out` the refusals of an
    empty pool, `available` the question how many are left. Beside them, in turns: bare_handler, the most this web
    server can do (an ASGI handler that answers a constant; bare_front is the same on our own front), and
    tutorial, FastAPI with one Redis Lua call per request on a real Valkey, which keeps nothing on disk. "ours ÷ that"
    is `holdfast` divided by each (`sold_out` for tutorial_sold_out). On PostgreSQL and Redis, holdfast_two is the same
    from two server processes; on Redis every write is synced, and a worker drains the journal meanwhile.

    Latency is measured by an open loop of 1,000 requests/s: requests are sent when they are due, and latency counts
    from then, so slow answers count in full. What was granted is compared with what the servers stored; if the two
    differ, the command says so and exits with 1.
    """
    plan = Plan(engine, seconds, connections, choose_driver(driver), attempts)
    _report(lambda: bench_http(plan), as_json)


@app.command(
    "settlement",
    epilog=examples(
        "holdfast bench settlement",
        "holdfast bench settlement --engine postgres --json",
    ),
)
def settlement(engine: DecidedOn = Engine.SQLITE, seconds: Seconds = 3.0, as_json: AsJson = False) -> None:
    """Orders paid from wallets per second, on one hot pool.

    `holdfast` is the settler, many orders in one transaction; one_per_order writes the same rows with one transaction
    each. `purchases` are sent by an open loop of 200/s to the same pool while the settler works at full speed: their
    latency counts from when they were due. Every order waits for the disk, and they are counted after each round.
    """
    if engine is Engine.REDIS:
        complain("settlement works in the ledger, which is PostgreSQL there: use --engine postgres")
        raise typer.Exit(2)
    _report(lambda: bench_settlement(engine, seconds), as_json)


@app.command(
    "room",
    epilog=examples(
        "holdfast bench room --seconds 10                       steadier figures",
        "holdfast bench room --engine postgres --json           for a program to compare",
    ),
)
def room(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Seconds = 3.0,
    connections: Annotated[int, typer.Option(help="Connections kept open by the driver.", min=1, max=4096)] = 256,
    as_json: AsJson = False,
) -> None:
    """People per second who get in line, and looks at `now`, of one server process.

    `joins` are joins over HTTP, each of another buyer with a token of their own; `joins_desk` the same without HTTP;
    `now` the document that everyone in line looks at. Beside it bare_handler, an ASGI handler that answers a constant
    on granian, and bare_front, the same on our own front. "ours ÷ that": `now` ÷ each.

    `purchases` are purchases of as many buyers as are served best, `overload` what is still sold while ten times as
    many come, by an open loop over 2,048 connections; overload_of_peak is the second divided by the first. `sold_out`
    is the latency of an empty pool, by an open loop of 5,000 purchases/s.

    Every place is on disk when it is answered; the line must then be as long as was counted. Places are kept in the
    ledger whatever the engine, so --engine redis measures PostgreSQL too.
    """
    kept_in = Engine.POSTGRES if engine is Engine.REDIS else engine
    _report(lambda: bench_room(kept_in, seconds, connections), as_json)


def _report(bench: Callable[[], Report], as_json: bool) -> None:
    # Stopped from outside, we stop the servers we started just as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        report = bench()
    except BenchFailed as exc:
        complain(str(exc))
        raise typer.Exit(1) from exc
    if as_json:
        print_json(report.body())
    else:
        print_table(COLUMNS, report.rows(), title=report.title, folded="what was measured")
        for line in report.notes():
            typer.echo(line)
