"""A closed loop: each client sends its next request as soon as the previous one was answered."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any

from msgspec import Struct

from holdfast.lab.bench.measure.rounds import Round
from holdfast.lab.load.latency import latency_of

WARM_UP_S = 0.2

# Takes the client's number and returns whether a unit was granted.
Attempt = Callable[[int], Awaitable[bool]]


class LoopResult(Struct, frozen=True):
    """The loop waits for every response, so counts can be compared with the database."""

    granted: int
    refused: int
    elapsed_s: float
    waits: list[float]

    def as_round(self) -> Round:
        return Round((self.granted + self.refused) / self.elapsed_s, latency_of(self.waits))


async def closed_loop(clients: int, seconds: float, attempt: Attempt) -> LoopResult:
    granted = 0
    waits: list[float] = []
    started = perf_counter()
    until = started + seconds

    async def client(number: int) -> None:
        nonlocal granted
        asked = perf_counter()
        while asked < until:
            if await attempt(number):
                granted += 1
            answered = perf_counter()
            waits.append(answered - asked)
            asked = answered

    await asyncio.gather(*(client(number) for number in range(clients)))
    return LoopResult(granted, len(waits) - granted, perf_counter() - started, waits)


def spread_id(number: int) -> str:
    """A distinct owner for each number, in shuffled order, so that index entries are spread as in production."""
    return f"{number * 7919 % 1_000_003}-{number}"


def warmed_up(
    runner: asyncio.Runner, run: Callable[[float], Coroutine[Any, Any, LoopResult]]
) -> Callable[[float], Round]:
    """Measures a figure after a short warm-up, which does not count."""

    def measure(seconds: float) -> Round:
        runner.run(run(min(seconds, WARM_UP_S)))
        return runner.run(run(seconds)).as_round()

    return measure
