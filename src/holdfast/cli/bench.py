"""`holdfast bench`."""

import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from holdfast.bench.all import bench_all
from holdfast.bench.approaches import bench_approaches
from holdfast.bench.document.aims import judge
from holdfast.bench.failure import BenchFailed
from holdfast.bench.gate import bench_gate
from holdfast.bench.growth.run import bench_growth
from holdfast.bench.growth.sizes import LEAST, MOST
from holdfast.bench.http import Plan, bench_http, choose_driver
from holdfast.bench.parts import all_parts, choose
from holdfast.bench.redis import bench_redis_gate
from holdfast.bench.report import Table
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
        "holdfast bench growth                     all of it with up to a million reservations, and people in line",
        "holdfast bench all --out docs             everything, and docs/BENCHMARKS.md with plots",
    ),
    no_args_is_help=True,
)


class Driver(StrEnum):
    WRK = "wrk"
    OWN = "own"


UpTo = Annotated[
    int, typer.Option(help="The most reservations held, and people in line; fewer is quicker.", min=LEAST, max=MOST)
]
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
    server can do (an ASGI handler that answers a constant; bare_rsgi is the same in the server's own protocol), and
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
    on the same web server, and bare_rsgi, the same in the server's own protocol. "ours ÷ that": `now` ÷ each.

    `purchases` are purchases of as many buyers as are served best, `overload` what is still sold while ten times as
    many come, by an open loop over 2,048 connections; overload_of_peak is the second divided by the first. `sold_out`
    is the latency of an empty pool, by an open loop of 5,000 purchases/s.

    Every place is on disk when it is answered; the line must then be as long as was counted. Places are kept in the
    ledger whatever the engine, so --engine redis measures PostgreSQL too.
    """
    kept_in = Engine.POSTGRES if engine is Engine.REDIS else engine
    _report(lambda: bench_room(kept_in, seconds, connections), as_json)


@app.command(
    "growth",
    epilog=examples(
        "holdfast bench growth --up-to 100000                   a minute instead of several",
        "holdfast bench growth --engine redis --json",
    ),
)
def growth(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Annotated[float, typer.Option(help="Seconds for each point of a curve.", min=0.1, max=600)] = 1.0,
    up_to: UpTo = MOST,
    as_json: AsJson = False,
) -> None:
    """What becomes of throughput and latency as things grow.

    Reservations per second and their latency by how many commands wait at a time (1 to 4,096) and by how many pools are
    asked at once (1 to 1,000). Then, with 1,000 to 1,000,000 reservations held: decisions, and what it costs to look
    one up, to ask how many are left, to expire 500 that are due, to find that none is due, to check that the pool adds
    up (which goes through all of them), and the memory of this process and of Valkey; with --engine redis also how long
    a rebuild from the ledger takes. At last joins and looks at one's own place with as many people in line; not with
    --engine redis, where the line is in PostgreSQL: use --engine postgres.

    While that is measured as much is given back as is taken, so that the size stays. Pools and lines are filled through
    the gate and the desk, and counted afterwards; if they do not add up, the command says so and exits with 1.
    """
    _report(lambda: bench_growth(engine, seconds, up_to), as_json)


@app.command(
    "approaches",
    epilog=examples(
        "holdfast bench approaches",
        "holdfast bench approaches --seconds 10 --json          steadier figures, for a program",
    ),
)
def approaches(seconds: Seconds = 3.0, as_json: AsJson = False) -> None:
    """Every usual way to take a hot counter beside ours, in turns, 64 clients each, and what a yes of each is worth.

    On PostgreSQL: for_update, conditional_update, skip_locked (a row per unit), one transaction per request; and lock,
    a distributed lock in Valkey around read, check and write. On Valkey: lua, one script call per request, on a server
    that keeps nothing, and lua_synced, on one that syncs every write. Ours on SQLite, PostgreSQL and Redis.

    "ours ÷ that" is ours on PostgreSQL divided by those on PostgreSQL, and ours on Redis divided by the scripts. The
    second table is no measurement: it says what each does when a request is repeated, a hold ends, or something dies.
    """
    _report(lambda: bench_approaches(seconds), as_json)


@app.command(
    "all",
    epilog=examples(
        "holdfast bench all --out docs                          BENCHMARKS.md, benchmarks/*.svg, figures.json",
        "holdfast bench all --out docs --only http              measures that anew, and keeps the rest",
        "holdfast bench all --out docs --only growth:redis,room",
        "holdfast bench all --seconds 1 --up-to 10000           a quick look",
    ),
)
def everything(
    seconds: Seconds = 3.0,
    up_to: UpTo = MOST,
    out: Annotated[
        Path | None, typer.Option(help="Write BENCHMARKS.md, plots and figures.json into this directory.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Only these, by commas: a bench, or one engine of it, as in http,growth:redis.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Everything above, on every engine, one after the other: about a quarter of an hour.

    Each part is the command of its own name, in a process of its own. A part that fails is named at the end, and the
    command exits with 1; the others are there all the same. After Ctrl-C, what was measured is there. With --out, parts
    that are not measured now are kept from benchmarks/figures.json, each with its date.

    Nothing else should run on the machine meanwhile.
    """
    parts = all_parts(seconds, up_to)
    _stop_as_ctrl_c()
    measured = bench_all(choose(parts, only), parts, out)
    if as_json:
        print_json(measured.body())
    else:
        rows = [[told.aim.words, told.engine, told.value, told.verdict] for told in judge(measured)]
        print_table(["aim", "engine", "measured", ""], rows)
    for failed in measured.failed:
        complain(f"{failed.bench} on {failed.engine} was not measured: {failed.reason}")
    if measured.failed:
        raise typer.Exit(1)


def _stop_as_ctrl_c() -> None:
    """Stopped from outside, we stop the servers we started just as after Ctrl-C; which is of no effect on what a shell
    started in the background, unless we say so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


class Told(Protocol):
    """What a bench has to tell."""

    def body(self) -> dict[str, Any]: ...
    def tables(self) -> list[Table]: ...
    def notes(self) -> list[str]: ...


def _report(bench: Callable[[], Told], as_json: bool) -> None:
    _stop_as_ctrl_c()
    try:
        report = bench()
    except BenchFailed as exc:
        complain(str(exc))
        raise typer.Exit(1) from exc
    if as_json:
        print_json(report.body())
        return
    for table in report.tables():
        print_table(table.columns, table.rows, title=table.title, folded="what was measured")
    for line in report.notes():
        typer.echo(line)
