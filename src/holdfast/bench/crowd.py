"""A closed loop: so many clients, each asking again as soon as it was answered."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from msgspec import Struct

from holdfast.bench.rounds import Round, latency_of

# Takes the client's number and gives whether a unit was granted.
Attempt = Callable[[int], Awaitable[bool]]


class Crowd(Struct, frozen=True):
    """What a crowd was told. Everything asked was also answered, so counts can be compared with the database."""

    granted: int
    refused: int
    elapsed_s: float
    waits: list[float]

    def as_round(self) -> Round:
        return Round((self.granted + self.refused) / self.elapsed_s, latency_of(self.waits))


async def closed_loop(clients: int, seconds: float, attempt: Attempt) -> Crowd:
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
    return Crowd(granted, len(waits) - granted, perf_counter() - started, waits)
