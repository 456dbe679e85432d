"""The duration of a single operation."""

from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter


async def took_ms(work: Callable[[], Awaitable[object]]) -> float:
    started = perf_counter()
    await work()
    return 1000 * (perf_counter() - started)


async def middle_ms(times: int, work: Callable[[], Awaitable[object]]) -> float:
    return median([await took_ms(work) for _ in range(times)])
