"""Performance targets, and whether they were met."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.lab.bench.document.markdown import percent, times
from holdfast.lab.bench.measure.results import Bench, Measured

ENGINES = ("sqlite", "postgres", "redis")
LEDGERS = ("sqlite", "postgres")
SERVERS = ("postgres", "redis")

Value = Callable[[Bench], float | None]


class Goal(Struct, frozen=True):
    words: str
    bench: str
    engines: tuple[str, ...]
    value: Value
    is_reached: Callable[[float], bool]
    tell: Callable[[float], str]


class Judgement(Struct, frozen=True):
    goal: Goal
    engine: str
    value: str
    verdict: str


def _ratio(name: str) -> Value:
    return lambda bench: bench.ratios.get(name)


def _figure(name: str) -> Value:
    return lambda bench: bench.figures.get(name)


def _p50(name: str) -> Value:
    return lambda bench: bench.latency_ms.get(name, {}).get("p50")


def _p99(name: str) -> Value:
    return lambda bench: bench.latency_ms.get(name, {}).get("p99")


def _at_least(least: float) -> Callable[[float], bool]:
    return lambda value: value >= least


def _at_most(most: float) -> Callable[[float], bool]:
    return lambda value: value <= most


def _per_second(value: float) -> str:
    return f"{value:,.0f}/s"


def _ms(value: float) -> str:
    return f"{value:.1f} ms"


_TUTORIAL = "HTTP, accepted: ten times the tutorial"
_BARE = "HTTP, accepted: 40 % of a bare handler"
_SOLD_OUT = "HTTP, sold-out: 75 % of a bare handler"
_LATE = "sold-out answers to buyers with a key at 5,000/s: p99 under 20 ms"
_ALONE = "HTTP, one client, one at a time: p50 at most"


def _than_go(name: str, what: str, sqlite: float, postgres: float) -> tuple[Goal, Goal]:
    return (
        Goal(f"HTTP, {what}: {sqlite:g} of the Go peer", "http", ("sqlite",), _ratio(name), _at_least(sqlite), times),
        Goal(
            f"HTTP, {what}: {postgres:g} of the Go peer on PostgreSQL",
            "http",
            ("postgres",),
            _ratio(name),
            _at_least(postgres),
            times,
        ),
    )


GOALS = (
    Goal(_TUTORIAL, "http", ENGINES, _ratio("tutorial"), _at_least(10), times),
    Goal(_BARE, "http", ENGINES, _ratio("bare_handler"), _at_least(0.4), percent),
    Goal(_SOLD_OUT, "http", ENGINES, _ratio("sold_out_of_bare"), _at_least(0.75), percent),
    *_than_go("go", "reserve", 1.0, 0.8),
    *_than_go("go_purchases", "purchase", 0.8, 0.7),
    *_than_go("go_sold_out", "sold out, buyers with a key", 1.0, 1.0),
    Goal(f"{_ALONE} 0.6 ms", "http", ("sqlite",), _p50("one_at_a_time"), _at_most(0.6), _ms),
    Goal(f"{_ALONE} 1.2 ms", "http", ("postgres",), _p50("one_at_a_time"), _at_most(1.2), _ms),
    Goal("HTTP, reserve at 1,000/s: p99 at most 5 ms", "http", ENGINES, _p99("reserve"), _at_most(5), _ms),
    Goal("HTTP, stock queries at 1,000/s: p99 at most 3 ms", "http", ENGINES, _p99("available"), _at_most(3), _ms),
    Goal("HTTP: two server processes beat one", "http", SERVERS, _ratio("two_of_one"), lambda v: v > 1, times),
    Goal(
        "the gate: 20 times conditional `UPDATE`",
        "gate",
        ("postgres",),
        _ratio("conditional_update"),
        _at_least(20),
        times,
    ),
    Goal(
        "settlement: 1,000 orders per second", "settlement", LEDGERS, _figure("holdfast"), _at_least(1_000), _per_second
    ),
    Goal("the room: 5,000 joins per second", "room", LEDGERS, _figure("joins"), _at_least(5_000), _per_second),
    Goal("`now`: 60 % of a bare handler", "room", LEDGERS, _ratio("bare_handler"), _at_least(0.6), percent),
    Goal("overload: 80 % of the peak", "room", LEDGERS, _ratio("overload_of_peak"), _at_least(0.8), percent),
    Goal(_LATE, "room", LEDGERS, _p99("sold_out"), lambda v: v < 20, _ms),
)
# Ratio of the largest measured size to the smallest. Latencies of a few milliseconds can double by chance.
GROWTH_GOALS = (
    Goal("decisions stay 80 % as fast", "growth", ENGINES, _ratio("held_last_of_first"), _at_least(0.8), percent),
    Goal("a look-up at most doubles", "growth", ENGINES, _ratio("held_find"), _at_most(2), times),
    Goal("a stock query at most doubles", "growth", ENGINES, _ratio("held_view"), _at_most(2), times),
    Goal("expiry of 500: at most doubles", "growth", ENGINES, _ratio("held_expire"), _at_most(2), times),
    Goal("memory: at most a quarter more", "growth", ENGINES, _ratio("held_process_mb"), _at_most(1.25), times),
    Goal("joins stay 80 % as fast", "growth", LEDGERS, _ratio("line_last_of_first"), _at_least(0.8), percent),
)


def judge(measured: Measured, goals: tuple[Goal, ...] = GOALS + GROWTH_GOALS) -> list[Judgement]:
    return [judged for goal in goals for judged in _judged(goal, measured)]


def _judged(goal: Goal, measured: Measured) -> Iterator[Judgement]:
    for engine in goal.engines:
        bench = measured.of(goal.bench, engine)
        value = None if bench is None else goal.value(bench)
        if value is None:
            yield Judgement(goal, engine, "", "not measured")
        else:
            yield Judgement(goal, engine, goal.tell(value), "met" if goal.is_reached(value) else "missed")
