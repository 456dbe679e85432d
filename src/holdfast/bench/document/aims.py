"""What was aimed at, and whether it was reached."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.bench.document.markdown import percent, times
from holdfast.bench.measured import Bench, Measured

ENGINES = ("sqlite", "postgres", "redis")
LEDGERS = ("sqlite", "postgres")
SERVERS = ("postgres", "redis")

Value = Callable[[Bench], float | None]


class Aim(Struct, frozen=True):
    words: str
    bench: str
    engines: tuple[str, ...]
    value: Value
    is_reached: Callable[[float], bool]
    tell: Callable[[float], str]


class Judged(Struct, frozen=True):
    aim: Aim
    engine: str
    value: str
    verdict: str


def _ratio(name: str) -> Value:
    return lambda bench: bench.ratios.get(name)


def _figure(name: str) -> Value:
    return lambda bench: bench.figures.get(name)


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
AIMS = (
    Aim(_TUTORIAL, "http", ENGINES, _ratio("tutorial"), _at_least(10), times),
    Aim(_BARE, "http", ENGINES, _ratio("bare_handler"), _at_least(0.4), percent),
    Aim(_SOLD_OUT, "http", ENGINES, _ratio("sold_out_of_bare"), _at_least(0.75), percent),
    Aim("HTTP: two server processes beat one", "http", SERVERS, _ratio("two_of_one"), lambda v: v > 1, times),
    Aim(
        "the gate: 20 times conditional `UPDATE`",
        "gate",
        ("postgres",),
        _ratio("conditional_update"),
        _at_least(20),
        times,
    ),
    Aim(
        "settlement: 1,000 orders per second", "settlement", LEDGERS, _figure("holdfast"), _at_least(1_000), _per_second
    ),
    Aim("the room: 5,000 joins per second", "room", LEDGERS, _figure("joins"), _at_least(5_000), _per_second),
    Aim("`now`: 60 % of a bare handler", "room", LEDGERS, _ratio("bare_handler"), _at_least(0.6), percent),
    Aim("overload: 80 % of the peak", "room", LEDGERS, _ratio("overload_of_peak"), _at_least(0.8), percent),
    Aim(_LATE, "room", LEDGERS, _p99("sold_out"), lambda v: v < 20, _ms),
)
# From the smallest size that was measured to the largest. Latency of a few milliseconds doubles by chance.
GROWTH_AIMS = (
    Aim("decisions stay 80 % as fast", "growth", ENGINES, _ratio("held_last_of_first"), _at_least(0.8), percent),
    Aim("a look-up at most doubles", "growth", ENGINES, _ratio("held_find"), _at_most(2), times),
    Aim("how many are left: at most doubles", "growth", ENGINES, _ratio("held_view"), _at_most(2), times),
    Aim("expiry of 500: at most doubles", "growth", ENGINES, _ratio("held_expire"), _at_most(2), times),
    Aim("memory: a quarter more at most", "growth", ENGINES, _ratio("held_process_mb"), _at_most(1.25), times),
    Aim("joins stay 80 % as fast", "growth", LEDGERS, _ratio("line_last_of_first"), _at_least(0.8), percent),
)


def judge(measured: Measured, aims: tuple[Aim, ...] = AIMS + GROWTH_AIMS) -> list[Judged]:
    return [judged for aim in aims for judged in _judged(aim, measured)]


def _judged(aim: Aim, measured: Measured) -> Iterator[Judged]:
    for engine in aim.engines:
        bench = measured.of(aim.bench, engine)
        value = None if bench is None else aim.value(bench)
        if value is None:
            yield Judged(aim, engine, "", "not measured")
        else:
            yield Judged(aim, engine, aim.tell(value), "reached" if aim.is_reached(value) else "missed")
