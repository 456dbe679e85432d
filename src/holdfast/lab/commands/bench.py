"""`holdfast bench`."""

import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from msgspec import to_builtins

from holdfast.cli.engine import Engine
from holdfast.cli.output import AsJson, complain, examples, fail, print_json, print_table
from holdfast.lab.bench.budgets.run import costs, record_budgets
from holdfast.lab.bench.budgets.shares import granian_us, shares
from holdfast.lab.bench.document.goals import judge
from holdfast.lab.bench.growth.run import bench_growth
from holdfast.lab.bench.growth.sizes import LEAST, MOST
from holdfast.lab.bench.measure.report import Table
from holdfast.lab.bench.parts import all_parts, choose
from holdfast.lab.bench.run_all import bench_all
from holdfast.lab.bench.suites.approaches import bench_approaches
from holdfast.lab.bench.suites.edge import bench_edge
from holdfast.lab.bench.suites.gate import bench_gate
from holdfast.lab.bench.suites.http import HttpOptions, bench_http, choose_driver
from holdfast.lab.bench.suites.redis_gate import bench_redis_gate
from holdfast.lab.bench.suites.room import bench_room
from holdfast.lab.bench.suites.settlement import bench_settlement
from holdfast.lab.load.failure import BenchFailed

app = typer.Typer(
    help="Benchmark this machine: Holdfast and common alternatives in one run, on engines it starts itself.",
    epilog=examples(
        "holdfast bench gate                    the gate on SQLite",
        "holdfast bench gate --engine postgres  the gate on PostgreSQL",
        "holdfast bench http                    the server over HTTP",
        "holdfast bench room                    joins of the waiting room",
        "holdfast bench edge                    the nginx in front",
        "holdfast bench growth                  up to a million in a queue",
        "holdfast bench all --out docs          everything, with plots",
    ),
    no_args_is_help=True,
)


class Driver(StrEnum):
    WRK = "wrk"
    OWN = "own"


UpTo = Annotated[
    int, typer.Option(help="Maximum reservations and queue length; fewer is faster.", min=LEAST, max=MOST, metavar="N")
]
Seconds = Annotated[
    float,
    typer.Option(
        help="Seconds per figure, in up to three interleaved rounds; the median is reported.",
        min=0.1,
        max=600,
        metavar="N",
    ),
]
DecidedOn = Annotated[Engine, typer.Option(help="The engine that decides reservations.")]


@app.command(
    "gate",
    epilog=examples(
        "holdfast bench gate --seconds 10       more stable figures",
        "holdfast bench gate --engine postgres --json  as JSON",
        "holdfast bench gate --engine redis     batches in Valkey",
    ),
)
def gate(engine: DecidedOn = Engine.SQLITE, seconds: Seconds = 3.0, as_json: AsJson = False) -> None:
    """Durable reservations per second, without HTTP.

    holdfast_1 to holdfast_1024 are reservations with that many commands waiting; `holdfast` is 256 waiting,
    `holdfast_keyed` adds idempotency keys, `holdfast_limited` a limit per owner, `sold_out` are refusals of an empty
    pool (`sold_out_keyed`: with keys).

    The baselines run in turns with them, always on a PostgreSQL started for this, one transaction per request:
    conditional_update (UPDATE … WHERE available >= 1), for_update (SELECT … FOR UPDATE) and skip_locked (a row per
    unit; the better of 16 and 64 clients). "ours ÷ that" is `holdfast` divided by each.

    With --engine redis the baselines run on Valkey: call_per_command, the same function with one command per call
    through the same client, and unbatched, the same over bare sockets; each also without persistence (no_fsync).

    Every reservation is on disk before it counts, on both sides. After each round the database must contain what was
    counted; otherwise the command exits with 1.
    """
    _report(lambda: bench_redis_gate(seconds) if engine is Engine.REDIS else bench_gate(engine, seconds), as_json)


@app.command(
    "http",
    epilog=examples(
        "holdfast bench http --driver own       without wrk",
        "holdfast bench http --attempts 1000000  memory over a million attempts",
        "holdfast bench http --engine postgres --connections 64",
    ),
)
def http(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Seconds = 3.0,
    connections: Annotated[
        int, typer.Option(help="Connections kept open by the driver.", min=1, max=4096, metavar="N")
    ] = 256,
    driver: Annotated[Driver | None, typer.Option(help="Load generator; default: wrk if installed.")] = None,
    attempts: Annotated[
        int,
        typer.Option(help="Send N more attempts and report the server's memory at every tenth.", min=0, metavar="N"),
    ] = 0,
    go_peer: Annotated[bool, typer.Option(help="Compare with the Go peer, if `go` is on the PATH.")] = True,
    as_json: AsJson = False,
) -> None:
    """Requests per second and latency of the real server over sockets.

    `holdfast` are accepted reservations, `holdfast_keyed` adds idempotency keys, `sold_out` are refusals of an empty
    pool, `available` are stock queries; `purchases` are by buyers with a token and a key, `sold_out_keyed` are their
    refusals. Measured in turns with them: bare_handler, the most this web server can do (an ASGI handler with a
    constant response; bare_rsgi uses the server's own protocol), and tutorial, FastAPI with one Redis Lua call per
    request on a real Valkey without persistence. "ours ÷ that" is `holdfast` divided by each (`sold_out` for
    tutorial_sold_out). On PostgreSQL and Redis, holdfast_two uses two server processes; on Redis every write is synced
    and a worker drains the journal.

    go, go_purchases and go_sold_out are the same requests to a service in Go on SQLite or PostgreSQL: one goroutine
    decides per pool, one transaction per batch, on disk before the answer. It is compiled first, for a minute or more,
    if `go` is installed, and otherwise absent.

    Latency is measured by an open loop of 1,000 requests/s: it counts from when a request was due, so slow responses
    count in full; one_at_a_time is a single client. Grants are compared with what the servers stored; if they differ,
    the command exits with 1.
    """
    plan = HttpOptions(engine, seconds, connections, choose_driver(driver), attempts, go_peer)
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

    `holdfast` is the settler, many orders per transaction; one_per_order writes the same rows with one transaction
    each. `purchases` is the latency of an open loop of 200 purchases/s at the same pool while the settler works at full
    speed. Every order is on disk before it counts, and orders are counted after each round.
    """
    if engine is Engine.REDIS:
        complain("in Redis mode settlement runs in PostgreSQL: use --engine postgres")
        raise typer.Exit(2)
    _report(lambda: bench_settlement(engine, seconds), as_json)


@app.command(
    "room",
    epilog=examples(
        "holdfast bench room --seconds 10       more stable figures",
        "holdfast bench room --engine postgres --json  as JSON",
    ),
)
def room(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Seconds = 3.0,
    connections: Annotated[
        int, typer.Option(help="Connections kept open by the driver.", min=1, max=4096, metavar="N")
    ] = 256,
    as_json: AsJson = False,
) -> None:
    """Joins of the waiting room and reads of `now` per second, of one server process.

    `joins` are joins over HTTP, each by another buyer with their own token; `joins_desk` the same without HTTP; `now`
    is the document that everyone in the queue polls. Baselines: bare_handler, an ASGI handler with a constant response
    on the same web server, and bare_rsgi, the same in the server's own protocol. "ours ÷ that": `now` ÷ each.

    `purchases` is the peak purchase rate, `overload` what is still sold at ten times that load, by an open loop over
    2,048 connections; overload_of_peak is the second divided by the first. `sold_out` is the latency of an empty pool
    at an open loop of 5,000 purchases/s.

    Every place is on disk when it is answered, and the queue must be as long as counted. Places are in the ledger with
    every engine, so --engine redis also measures PostgreSQL.
    """
    kept_in = Engine.POSTGRES if engine is Engine.REDIS else engine
    _report(lambda: bench_room(kept_in, seconds, connections), as_json)


@app.command(
    "edge",
    epilog=examples(
        "holdfast bench edge --seconds 10       more stable figures",
        "holdfast bench edge --json             as JSON",
    ),
)
def edge(
    seconds: Seconds = 3.0,
    connections: Annotated[int, typer.Option(help="Connections kept open by wrk.", min=1, max=4096, metavar="N")] = 256,
    as_json: AsJson = False,
) -> None:
    """Requests per second of the edge (`holdfast edge nginx`), next to a plain nginx that serves the same bytes.

    `now` comes from the edge's cache, plain_cache from an nginx that only caches, plain from a file. `refused` are
    purchases with a forged pass, `sold_out` purchases in a sold-out sale, plain_refusal a constant 429. "ours ÷ that":
    cache is `now` ÷ plain_cache, plain `now` ÷ plain, refused_of_plain `refused` ÷ plain_refusal.

    Below the table: how many of the requests reached Holdfast. Needs nginx with njs, and wrk.
    """
    _report(lambda: bench_edge(seconds, connections), as_json)


@app.command(
    "growth",
    epilog=examples(
        "holdfast bench growth --up-to 100000   one minute instead of several",
        "holdfast bench growth --engine redis --json",
    ),
)
def growth(
    engine: DecidedOn = Engine.SQLITE,
    seconds: Annotated[float, typer.Option(help="Seconds per point of a curve.", min=0.1, max=600, metavar="N")] = 1.0,
    up_to: UpTo = MOST,
    as_json: AsJson = False,
) -> None:
    """Throughput and latency as data grows.

    Reservations per second and latency by the number of waiting commands (1 to 4,096) and of concurrent pools (1 to
    1,000). Then, with 1,000 to 1,000,000 open reservations: decisions, the cost of a look-up, of a stock query, of
    expiring 500 reservations, of finding that none is due, of a full consistency check, and the memory of this process
    and of Valkey; with --engine redis also the time of a rebuild from the ledger. Finally joins and status reads with
    as many people in the queue; not with --engine redis, where the queue is in PostgreSQL: use --engine postgres.

    During measurements as many units are returned as are taken, so that the size stays constant. The data is created
    through the normal code paths and counted afterwards; if the counts are wrong, the command exits with 1.
    """
    _report(lambda: bench_growth(engine, seconds, up_to), as_json)


@app.command(
    "approaches",
    epilog=examples(
        "holdfast bench approaches",
        "holdfast bench approaches --seconds 10 --json  more stable figures, as JSON",
    ),
)
def approaches(seconds: Seconds = 3.0, as_json: AsJson = False) -> None:
    """Common ways to decrement a hot counter, in turns with ours, 64 clients each, and their guarantees.

    On PostgreSQL, one transaction per request: for_update, conditional_update, skip_locked (a row per unit),
    advisory_lock, serializable and optimistic_version (both retried after a conflict), queue_consumer (a queue in
    Valkey, one consumer), lock (a distributed lock in Valkey) and redlock (one over five Valkeys). On Valkey: lua, one
    script call per request without persistence, lua_synced, with every write synced, and decr, the same with DECR. Ours
    on SQLite, PostgreSQL and Redis.

    "ours ÷ that" compares PostgreSQL with PostgreSQL and Redis with the scripts. Then each is tried out: 20 units, many
    buyers, and one client that is paused between its check and its write; the second table has what was sold beyond
    the 20. The third is not measured: it shows how each handles a repeated request, an expired hold and a crash.
    """
    _report(lambda: bench_approaches(seconds), as_json)


@app.command(
    "budgets",
    epilog=examples(
        "holdfast bench budgets                 every engine",
        "holdfast bench budgets --engine sqlite --json",
        "holdfast bench budgets --record        accept what was measured",
    ),
)
def budgets(
    engine: Annotated[Engine | None, typer.Option(help="Only this engine.")] = None,
    record: Annotated[bool, typer.Option(help="Make the measured costs the new budgets.")] = False,
    as_json: AsJson = False,
) -> None:
    """Function calls per request, compared with a budget: the same on every machine, however busy.

    2,000 requests of each kind go through the server's own code and a real engine, in waves of ten, without sockets. A
    request that makes over a tenth more calls than its budget fails the command, which then exits with 1. Calls depend
    on the version of Python; where there is no budget for it, they are only reported.
    """
    _stop_as_ctrl_c()
    found = [cost for name in ([engine] if engine else list(Engine)) for cost in costs(name)]
    if as_json:
        print_json({"calls": [to_builtins(cost) for cost in found]})
    else:
        print_table(["engine", "request", "calls", "budget"], [[c.engine, c.kind, c.calls, c.budget] for c in found])
    if record:
        complain(f"recorded in {record_budgets(found)}")
        return
    over = [cost for cost in found if cost.is_over]
    for cost in over:
        complain(f"{cost.kind} on {cost.engine} makes {cost.calls:g} calls, more than a tenth over {cost.budget:g}")
    if over:
        raise typer.Exit(1)


@app.command(
    "shares",
    epilog=examples(
        "holdfast bench shares                  every engine",
        "holdfast bench shares --engine sqlite --json",
    ),
)
def shares_by_part(
    engine: Annotated[Engine | None, typer.Option(help="Only this engine.")] = None, as_json: AsJson = False
) -> None:
    """Where the CPU time of a request goes: reading, authentication, limits, the batch, the answer.

    20,000 requests of each kind go through the server's own code and a real engine, 128 at once, without sockets, and
    the interpreter is sampled each millisecond of CPU time. What granian takes is measured apart, by a server that
    returns a constant. Other work on the machine makes all of it slower, and hardly changes the shares.
    """
    _stop_as_ctrl_c()
    found = [share for name in ([engine] if engine else list(Engine)) for share in shares(name)]
    handed_over = granian_us()
    if as_json:
        print_json({"granian_us": handed_over, "shares": [to_builtins(share) for share in found]})
        return
    rows = [[s.engine, s.kind, s.total_us, *s.parts.values()] for s in found]
    print_table(["engine", "request", "µs", *found[0].parts], rows)
    typer.echo(f"granian, in addition: {handed_over:g} µs")


@app.command(
    "all",
    epilog=examples(
        "holdfast bench all --out docs          writes BENCHMARKS.md with plots",
        "holdfast bench all --out docs --only http  keeps other results",
        "holdfast bench all --out docs --only growth:redis,room",
        "holdfast bench all --seconds 1 --up-to 10000  a quick run",
    ),
)
def everything(
    seconds: Seconds = 3.0,
    up_to: UpTo = MOST,
    out: Annotated[
        Path | None,
        typer.Option(help="Write BENCHMARKS.md, plots and figures.json into this directory.", metavar="DIR"),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated benchmarks, optionally with an engine, as in http,growth:redis.", metavar="NAMES"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every benchmark on every engine, one after the other: about 15 minutes.

    Each part runs the command of the same name in its own process. Failed parts are listed at the end, and the command
    exits with 1; the other results are kept, also after Ctrl-C. With --out, parts that are not measured now keep their
    values from benchmarks/figures.json, each with its date.

    Run nothing else on the machine meanwhile.
    """
    parts = all_parts(seconds, up_to)
    _stop_as_ctrl_c()
    measured = bench_all(choose(parts, only), parts, out)
    if as_json:
        print_json(measured.body())
    else:
        rows = [[one.goal.words, one.engine, one.value, one.verdict] for one in judge(measured)]
        print_table(["goal", "engine", "measured", ""], rows)
    for failed in measured.failed:
        complain(f"{failed.bench} on {failed.engine} failed: {failed.reason}")
    if measured.failed:
        raise typer.Exit(1)


def _stop_as_ctrl_c() -> None:
    """SIGTERM stops the servers we started, like Ctrl-C. Background jobs of a shell ignore SIGINT by default."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


class Report(Protocol):
    """The result of a benchmark."""

    def body(self) -> dict[str, Any]: ...
    def tables(self) -> list[Table]: ...
    def notes(self) -> list[str]: ...


def _report(bench: Callable[[], Report], as_json: bool) -> None:
    _stop_as_ctrl_c()
    try:
        report = bench()
    except BenchFailed as exc:
        fail(str(exc))
    if as_json:
        print_json(report.body())
        return
    for table in report.tables():
        print_table(table.columns, table.rows, title=table.title, folded="what was measured")
    for line in report.notes():
        typer.echo(line)
