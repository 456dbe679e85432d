"""The sections with what one bench measured: how it was, the table, and what explains it."""

from holdfast.bench.document.columns import (
    SHOWN,
    beside,
    by_engine,
    figure,
    latency,
    memory,
    ratio_percent,
    ratio_times,
)
from holdfast.bench.document.markdown import milliseconds, number, paragraph, table, times
from holdfast.bench.measured import Measured

_PER_SECOND = "durable reservations per second"
_WAITS = (("holdfast_1", "1"), ("holdfast_16", "16"), ("holdfast_64", "64"))
GATE = [
    *((f"ours, {waiting} waiting", figure(name)) for name, waiting in _WAITS),
    ("**ours, 256 waiting**", figure("holdfast", strong=True)),
    ("p50 and p99 of these", latency("holdfast")),
    ("ours, 1,024 waiting", figure("holdfast_1024")),
    ("ours, 256 waiting, each with an idempotency key", figure("holdfast_keyed")),
    ("ours, 256 waiting, from a pool with a limit per owner", figure("holdfast_limited")),
    ("refusals on an empty pool, 256 waiting", figure("sold_out")),
    ("the same, with keys", figure("sold_out_keyed")),
    ("refusals, packed beforehand, 256 in each call", figure("sold_out_redis")),
    ("conditional `UPDATE` per request, 64 clients, PostgreSQL", beside("conditional_update")),
    ("`SELECT … FOR UPDATE` per request, 64 clients, PostgreSQL", beside("for_update")),
    ("a row per unit and `SKIP LOCKED`, best of 16 and 64 clients", beside("skip_locked")),
    ("one command per call, same client, 64 of them", beside("call_per_command")),
    ("one command per call, bare sockets, 64 of them", beside("unbatched")),
    ("ours, 256 waiting, Valkey keeps nothing", figure("holdfast_no_fsync")),
    ("one command per call there, same client", beside("call_per_command_no_fsync")),
    ("one command per call there, bare sockets", beside("unbatched_no_fsync")),
]
HTTP = [
    ("**accepted reservations, one server process**", figure("holdfast", strong=True)),
    ("÷ the tutorial", ratio_times("tutorial")),
    ("÷ a bare ASGI handler", ratio_percent("bare_handler")),
    ("accepted reservations, two server processes", figure("holdfast_two")),
    ("two ÷ one", ratio_times("two_of_one")),
    ("two ÷ the tutorial", ratio_times("tutorial_two")),
    ("accepted, each with an idempotency key", figure("holdfast_keyed")),
    ("**sold-out answers**", figure("sold_out", strong=True)),
    ("÷ a bare ASGI handler", ratio_percent("sold_out_of_bare")),
    ("÷ a bare RSGI handler", ratio_percent("sold_out_of_bare_rsgi")),
    ("÷ the tutorial's", ratio_times("tutorial_sold_out")),
    ("how many are left", figure("available")),
    ("a bare ASGI handler", figure("bare_handler")),
    ("a bare RSGI handler", figure("bare_rsgi")),
    ("the tutorial, not durable", figure("tutorial")),
    ("the tutorial, sold out", figure("tutorial_sold_out")),
    ("reserve at 1,000/s, open loop, p50 and p99", latency("reserve")),
    ("how many are left at 1,000/s, open loop, p50 and p99", latency("available")),
    ("memory of the server before, and after", memory),
]
SETTLEMENT = [
    ("**wallet orders per second, by the settler**", figure("holdfast", strong=True)),
    ("the same, one transaction per order", beside("one_per_order")),
    ("purchases at that pool meanwhile, 200/s, p50 and p99", latency("purchases")),
]
ROOM = [
    ("**joins over HTTP per second, one process, each of another buyer**", figure("joins", strong=True)),
    ("joins without HTTP, 256 waiting", figure("joins_desk")),
    ("p50 and p99 of these", latency("joins_desk")),
    ("looks at `now`", figure("now")),
    ("÷ a bare ASGI handler", ratio_percent("bare_handler")),
    ("÷ a bare RSGI handler", ratio_percent("bare_rsgi")),
    ("purchases over HTTP, each of another buyer", figure("purchases")),
    ("the same when all is sold: refused, each with its key", figure("refusals")),
    ("**sold while ten times as many come**, open loop", figure("overload", strong=True)),
    ("÷ the peak", ratio_percent("overload_of_peak")),
    ("memory of the server before the storm, and after", memory),
    ("a join at 1,000/s, open loop, p50 and p99", latency("join")),
    ("`now` at 1,000/s, open loop, p50 and p99", latency("now")),
    ("sold-out answers with a key at 5,000/s, open loop, p50 and p99", latency("sold_out")),
    ("the same of a bare RSGI handler", latency("sold_out_bare")),
]


def gate(measured: Measured) -> str:
    return _section(
        "`holdfast bench gate --engine …`: through the batcher and the engine, without HTTP.",
        by_engine(measured, "gate", _PER_SECOND, GATE),
        "An idempotency key and a limit per owner each add a write to an index in which owners come in no order"
        " (ADR 0005). On Redis every write is synced, unless it says that Valkey keeps nothing; the same function"
        " decides everywhere, what differs is how many commands a call carries, and nothing is drained meanwhile.",
    )


def http(measured: Measured) -> str:
    return _section(
        "`holdfast bench http --engine …`: one server process unless it says two, 256 connections, the driver on the"
        " same cores. In Redis mode every write is synced and a worker drains the journal into PostgreSQL meanwhile.",
        by_engine(measured, "http", "requests per second", HTTP),
        "A bare handler reads the request and answers a constant: the most that could be. The tutorial is FastAPI on"
        " uvicorn with one Lua call per request on a Valkey that keeps nothing. In an open loop requests are sent when"
        " they are due, and latency counts from then, so slow answers count in full.",
    )


def settlement(measured: Measured) -> str:
    return _section(
        "`holdfast bench settlement --engine …`: reservations of one hot pool become orders paid from wallets."
        " In Redis mode settlement works in PostgreSQL.",
        by_engine(measured, "settlement", "", SETTLEMENT),
        "The settler rests for half the time of each batch of 64, so that purchases have their turn.",
    )


def room(measured: Measured) -> str:
    return _section(
        "`holdfast bench room --engine …`. In Redis mode the line is in PostgreSQL.",
        by_engine(measured, "room", "", ROOM),
        "Sold-out answers with a key go to the engine, because the same key must get the same answer (ADR 0010). What a"
        " bare handler takes at the same rate is the driver's and the machine's own latency. A storm comes over 2,048"
        " connections; whoever finds none free for two seconds gives up, and everybody else is told 201 or 503, nothing"
        " else.",
    )


def approaches(measured: Measured) -> str:
    bench = measured.of("approaches", "every")
    if bench is None:
        return ""
    names = sorted(bench.figures, key=lambda name: -bench.figures[name])
    rows = []
    for name in names:
        worth, waits = bench.worth.get(name, {}), bench.latency_ms.get(name, {})
        told = [worth.get(field, "") for field in ("durable", "retry", "expiry", "oversells")]
        latencies = [milliseconds(waits.get("p50")), milliseconds(waits.get("p99"))]
        rows.append(
            [APPROACHES.get(name, name), number(bench.figures[name]), times(bench.ratios.get(name)), *latencies, *told]
        )
    columns = ["64 clients each", "per second", "ours ÷ that", "p50 ms", "p99 ms", "on disk before the yes"]
    return _section(
        "`holdfast bench approaches`: all of them in turns, in one run, on one machine, each client asking again as"
        " soon as it was answered. Ours on PostgreSQL is divided by those on PostgreSQL, ours on Redis by the scripts.",
        table([*columns, "a retry is safe", "holds expire", "oversells"], rows),
        "The last four columns are no measurement; they follow from how each works. The gate's table has the better of"
        " 16 and 64 clients for `SKIP LOCKED`, and ours with fewer and more who wait.",
    )


APPROACHES = {
    "for_update": "`SELECT … FOR UPDATE`, PostgreSQL",
    "conditional_update": "conditional `UPDATE`, PostgreSQL",
    "skip_locked": "a row per unit, `SKIP LOCKED`, PostgreSQL",
    "lock": "distributed lock in Valkey, read, check, write in PostgreSQL",
    "lua": "Lua per request, Valkey keeps nothing",
    "lua_synced": "Lua per request, Valkey syncs every write",
    **{f"holdfast_{engine}": f"**ours on {shown}**" for engine, shown in SHOWN.items()},
}


def _section(how: str, figures: str, why: str) -> str:
    return "\n\n".join([paragraph(how), figures, paragraph(why)])
