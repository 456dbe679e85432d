"""The table of APPROACHES.md: for each way to sell limited stock, its cost, its use, and its measured result."""

from msgspec import Struct

from holdfast.lab.bench.document.markdown import number, table, times
from holdfast.lab.bench.measure.results import Bench, Measured

_OURS = "holdfast_postgres"


class _Way(Struct, frozen=True):
    name: str
    # Its name in the figures of `bench approaches`.
    figure: str
    costs: str
    fits: str
    left_to_build: str


_WAYS = (
    _Way("conditional `UPDATE … WHERE left >= n`", "conditional_update", "a row lock and a fsync per attempt",
         "some hundred attempts per second", "holds, expiry, idempotency, limits per buyer"),
    _Way("`SELECT … FOR UPDATE`", "for_update", "the same, and a round trip more while it is locked",
         "rules that need to read first", "holds, expiry, idempotency, limits per buyer"),
    _Way("`SERIALIZABLE`", "serializable", "an abort and a retry for most of the crowd", "little contention",
         "holds, expiry, idempotency, limits per buyer, the retry loop"),
    _Way("advisory lock", "advisory_lock", "as `FOR UPDATE`, without a row", "locking what has no row",
         "holds, expiry, idempotency, limits per buyer, and that every writer takes the lock"),
    _Way("optimistic version", "optimistic_version", "a retry for all but one per round", "little contention",
         "holds, expiry, idempotency, limits per buyer, the retry loop"),
    _Way("one row per unit, `SKIP LOCKED`", "skip_locked", "no queue for one row, but a row per unit",
         "seats, serial numbers", "several units at once, counting, expiry"),
    _Way("Redis `DECR`", "decr", "one call per attempt, two for a refusal; one core", "rough counters",
         "who has a unit, holds, expiry, idempotency, the way into the ledger, what is left after a crash"),
    _Way("Redis with one Lua call per attempt", "lua_synced", "one call per attempt; one core", "up to one core",
         "durability, the way into the ledger, rebuilding"),
    _Way("a lock in one Redis", "lock", "two round trips per attempt, one after the other",
         "mutual exclusion where a mistake is cheap", "fencing tokens; it does not protect stock by itself"),
    _Way("Redlock over five nodes", "redlock", "three or more round trips per attempt",
         "mutual exclusion where a mistake is cheap", "fencing tokens; it does not protect stock by itself"),
    _Way("a queue and one consumer", "queue_consumer", "nothing waits, but everyone waits for an answer",
         "work that may be late", "telling buyers, timeouts, what is lost with the consumer"),
    _Way("**batches decided by one function** (Holdfast)", _OURS, "one lock and one fsync per batch",
         "a crowd on one counter", "nothing of the above"),
)  # fmt: skip


def approaches_table(measured: Measured) -> str:
    bench = measured.of("approaches", "every")
    columns = [
        "approach",
        "the hot row costs",
        "best fit",
        "complexity: what you still have to build",
        "per second",
        "ours ÷ that",
    ]
    rows = [[way.name, way.costs, way.fits, way.left_to_build, *_figures(bench, way.figure)] for way in _WAYS]
    return f"{_measured(bench)}\n\n{table(columns, rows)}"


def _figures(bench: Bench | None, figure: str) -> list[str]:
    if bench is None or figure not in bench.figures:
        return ["not measured", ""]
    return [number(bench.figures[figure]), times(bench.ratios.get(figure))]


def _measured(bench: Bench | None) -> str:
    if bench is None:
        return "Nothing was measured: `holdfast bench all --only approaches --out docs` does it."
    facts = bench.machine
    load = f"with a load of {facts['load']} of other work on" if "load" in facts else "on"
    return (
        f"Measured by `holdfast bench approaches` on {bench.date[:10]}, {load} {facts.get('cores', '?')} cores, "
        f"{facts.get('clients', '?')} clients each, durable. Ours is that on PostgreSQL; the script is compared with "
        "that on Redis."
    )
