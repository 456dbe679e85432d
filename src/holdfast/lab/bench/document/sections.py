"""The section of each benchmark: method, table, explanation."""

from holdfast.lab.bench.document.columns import (
    SHOWN,
    baseline,
    best_ratio,
    by_engine,
    figure,
    latency,
    memory,
    ratio_percent,
    ratio_times,
)
from holdfast.lab.bench.document.markdown import milliseconds, number, paragraph, table, times
from holdfast.lab.bench.measure.results import Bench, Measured

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
    ("refusals, pre-encoded, 256 per call", figure("sold_out_redis")),
    ("conditional `UPDATE` per request, 64 clients, PostgreSQL", baseline("conditional_update")),
    ("`SELECT … FOR UPDATE` per request, 64 clients, PostgreSQL", baseline("for_update")),
    ("a row per unit and `SKIP LOCKED`, best of 16 and 64 clients", baseline("skip_locked")),
    ("one command per call, same client, 64 of them", baseline("call_per_command")),
    ("one command per call, bare sockets, 64 of them", baseline("unbatched")),
    ("ours, 256 waiting, Valkey without persistence", figure("holdfast_no_fsync")),
    ("one command per call, same client, no persistence", baseline("call_per_command_no_fsync")),
    ("one command per call, bare sockets, no persistence", baseline("unbatched_no_fsync")),
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
    ("**purchases, each by another buyer with token and key**", figure("purchases", strong=True)),
    ("**sold-out answers to such buyers**", figure("sold_out_keyed", strong=True)),
    ("stock queries", figure("available")),
    ("the Go peer, accepted reservations", baseline("go")),
    ("÷ it, best rounds", best_ratio("holdfast", "go")),
    ("the Go peer, purchases", baseline("go_purchases")),
    ("÷ it, best rounds", best_ratio("purchases", "go_purchases")),
    ("the Go peer, sold-out answers to buyers with a key", baseline("go_sold_out")),
    ("÷ it, best rounds", best_ratio("sold_out_keyed", "go_sold_out")),
    ("a bare ASGI handler", figure("bare_handler")),
    ("a bare RSGI handler", figure("bare_rsgi")),
    ("the tutorial, not durable", figure("tutorial")),
    ("the tutorial, sold out", figure("tutorial_sold_out")),
    ("reserve at 1,000/s, open loop, p50 and p99", latency("reserve")),
    ("stock queries at 1,000/s, open loop, p50 and p99", latency("available")),
    ("reserve, one client, one at a time, p50 and p99", latency("one_at_a_time")),
    ("the Go peer: reserve at 1,000/s", latency("go_reserve")),
    ("the Go peer: stock queries at 1,000/s", latency("go_available")),
    ("the Go peer: one at a time", latency("go_one_at_a_time")),
    ("server memory before and after", memory),
]
SETTLEMENT = [
    ("**wallet orders per second, by the settler**", figure("holdfast", strong=True)),
    ("the same, one transaction per order", baseline("one_per_order")),
    ("concurrent purchases at that pool, 200/s, p50 and p99", latency("purchases")),
]
ROOM = [
    ("**joins over HTTP per second, one process, each by another buyer**", figure("joins", strong=True)),
    ("joins without HTTP, 256 waiting", figure("joins_desk")),
    ("p50 and p99 of these", latency("joins_desk")),
    ("reads of `now`", figure("now")),
    ("÷ a bare ASGI handler", ratio_percent("bare_handler")),
    ("÷ a bare RSGI handler", ratio_percent("bare_rsgi")),
    ("purchases over HTTP, each by another buyer", figure("purchases")),
    ("refusals when sold out, each with its key", figure("refusals")),
    ("**sold at ten times the load**, open loop", figure("overload", strong=True)),
    ("÷ the peak", ratio_percent("overload_of_peak")),
    ("server memory before and after the overload", memory),
    ("a join at 1,000/s, open loop, p50 and p99", latency("join")),
    ("`now` at 1,000/s, open loop, p50 and p99", latency("now")),
    ("sold-out answers with a key at 5,000/s, open loop, p50 and p99", latency("sold_out")),
    ("the same of a bare RSGI handler", latency("sold_out_bare")),
]


def gate(measured: Measured) -> str:
    return _section(
        "`holdfast bench gate --engine …`: through the batcher and the engine, without HTTP.",
        by_engine(measured, "gate", _PER_SECOND, GATE),
        "An idempotency key and a limit per owner each add a write to an index in random owner order (ADR 5). On Redis"
        " every write is synced unless stated otherwise; the same function decides in every row, only the number of"
        " commands per call differs, and nothing is drained meanwhile.",
    )


def http(measured: Measured) -> str:
    return _section(
        "`holdfast bench http --engine …`: one server process unless stated otherwise, 256 connections, the load"
        " generator on the same cores. In Redis mode every write is synced and a worker drains the journal into"
        " PostgreSQL meanwhile.",
        by_engine(measured, "http", "requests per second", HTTP),
        "A bare handler reads the request and returns a constant: the upper bound. The tutorial is FastAPI on uvicorn"
        " with one Lua call per request on a Valkey without persistence. The Go peer (`lab/bench/peers/go`) is our idea"
        " in Go: a goroutine decides per pool, a batch is one transaction, and nothing is answered before it is on"
        " disk; it uses every core, and has no limits, sales windows, expiry, receipts or payments. In an open loop"
        " latency counts from when a request was due, so slow responses count in full.",
    )


def settlement(measured: Measured) -> str:
    return _section(
        "`holdfast bench settlement --engine …`: reservations of one hot pool become orders paid from wallets."
        " In Redis mode settlement runs in PostgreSQL.",
        by_engine(measured, "settlement", "", SETTLEMENT),
        "The settler pauses for half the duration of each batch of 64, so that purchases are not starved.",
    )


def room(measured: Measured) -> str:
    return _section(
        "`holdfast bench room --engine …`. In Redis mode the queue is in PostgreSQL.",
        by_engine(measured, "room", "", ROOM),
        "Sold-out answers with a key go to the engine, because the same key must get the same answer (ADR 10). A bare"
        " handler at the same rate shows the latency of the load generator and the machine. The overload uses 2,048"
        " connections; a request that finds none free for two seconds gives up, and every other gets 201 or 503.",
    )


def approaches(measured: Measured) -> str:
    bench = measured.of("approaches", "every")
    if bench is None:
        return ""
    names = sorted(bench.figures, key=lambda name: -bench.figures[name])
    rows = []
    for name in names:
        worth, waits = bench.worth.get(name, {}), bench.latency_ms.get(name, {})
        guarantees = [worth.get(field, "") for field in ("durable", "retry", "expiry", "oversells", "cost")]
        latencies = [milliseconds(waits.get("p50")), milliseconds(waits.get("p99"))]
        rows.append(
            [
                APPROACHES.get(name, name),
                number(bench.figures[name]),
                times(bench.ratios.get(name)),
                *latencies,
                number(bench.tries.get(name), 1),
                _oversold(bench, name),
                *guarantees,
            ]
        )
    columns = ["64 clients each", "per second", "ours ÷ that", "p50 ms", "p99 ms", "tries per grant", "oversold here"]
    guarantees = ["durable when answered", "safe retries", "holds expire", "oversells", "cost of a grant"]
    return _section(
        "`holdfast bench approaches`: all in turns, in one run, on one machine, in a closed loop. Ours on PostgreSQL is"
        " compared with the others on PostgreSQL, ours on Redis with the scripts.",
        table([*columns, *guarantees], rows),
        "Oversold here: many buyers for 20 units, and one client paused between its check and its write until the"
        " others are done, or for half a second if they wait for it; a lock lasts 200 ms in this test. Lua and ours"
        " have no such gap, and are only asked for twice the units at once. The last five columns are not measured;"
        " they follow from the design. The gate's table has the better of 16 and 64 clients for `SKIP LOCKED`, and ours"
        " with fewer and more waiting commands.",
    )


def _oversold(bench: Bench, name: str) -> str:
    found = bench.oversold.get(name)
    return "" if found is None else f"**yes, by {found}**" if found else "no"


APPROACHES = {
    "for_update": "`SELECT … FOR UPDATE`, PostgreSQL",
    "conditional_update": "conditional `UPDATE`, PostgreSQL",
    "skip_locked": "a row per unit, `SKIP LOCKED`, PostgreSQL",
    "advisory_lock": "advisory lock, read, check, write, PostgreSQL",
    "serializable": "`SERIALIZABLE`, retried, PostgreSQL",
    "optimistic_version": "optimistic version, retried, PostgreSQL",
    "queue_consumer": "queue in Valkey, one consumer, PostgreSQL",
    "redlock": "Redlock over five Valkeys, read, check, write in PostgreSQL",
    "lock": "distributed lock in Valkey, read, check, write in PostgreSQL",
    "lua": "Lua per request, Valkey without persistence",
    "lua_synced": "Lua per request, Valkey syncs every write",
    "decr": "`DECR`, Valkey syncs every write",
    **{f"holdfast_{engine}": f"**ours on {shown}**" for engine, shown in SHOWN.items()},
}


def _section(how: str, figures: str, why: str) -> str:
    return "\n\n".join([paragraph(how), figures, paragraph(why)])
