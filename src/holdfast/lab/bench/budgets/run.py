"""Measures what each kind of request costs, and compares it with its budget.

Requests come in waves that share a batch. A timer that fires or a batch that is split during a wave disturbs it, which
only adds calls. The cheapest of many waves was undisturbed, so the figure is the same in every run. On a slow machine
few waves are undisturbed, so a request that appears to exceed its budget is measured for longer.
"""

import asyncio
import platform
from collections.abc import Callable
from math import inf
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

from holdfast.lab.bench.budgets.calls import CallCounter
from holdfast.lab.bench.budgets.in_process import Asked, InProcess, open_in_process, stores_of
from holdfast.runtime.log import set_up_logging

REQUESTS, REQUESTS_IF_OVER = 2_000, 20_000
# Small, so that few waves are disturbed.
WAVE = 10
ALLOWED = 1.10
FILE = "budgets.json"

# Calls per request, by Python version, engine and kind of request.
Budgets = dict[str, dict[str, dict[str, float]]]


class Cost(Struct, frozen=True):
    engine: str
    kind: str
    calls: float
    budget: float | None

    @property
    def is_over(self) -> bool:
        return self.budget is not None and self.calls > ALLOWED * self.budget


def costs(engine: str) -> list[Cost]:
    budgets = read_budgets().get(python_version(), {}).get(engine, {})
    return [Cost(engine, kind, calls, budgets.get(kind)) for kind, calls in _counted(engine, budgets).items()]


def python_version() -> str:
    """Python versions inline and specialise differently, so each has its own budgets."""
    return ".".join(platform.python_version_tuple()[:2])


def read_budgets() -> Budgets:
    return msgspec.json.decode(Path(__file__).with_name(FILE).read_bytes(), type=Budgets)


def record_budgets(measured: list[Cost]) -> Path:
    """Engines that were not measured keep their budgets."""
    budgets = read_budgets()
    for cost in measured:
        budgets.setdefault(python_version(), {}).setdefault(cost.engine, {})[cost.kind] = cost.calls
    path = Path(__file__).with_name(FILE)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(budgets, order="sorted"), indent=1) + b"\n")
    return path


def _counted(engine: str, budgets: dict[str, float]) -> dict[str, float]:
    set_up_logging("warning")
    with stores_of(engine) as (directory, stores):
        return uvloop.run(_count_all(directory, stores, budgets))


async def _count_all(directory: Path, stores: dict[str, str], budgets: dict[str, float]) -> dict[str, float]:
    with CallCounter().installed() as counter:
        async with open_in_process(directory, **stores) as server:
            kinds = await server.kinds()
            return {
                kind: await _cheapest(server, counter, make, ALLOWED * budgets.get(kind, inf))
                for kind, make in kinds.items()
            }


async def _cheapest(server: InProcess, counter: CallCounter, make: Callable[[], Asked], allowed: float) -> float:
    least, asked = inf, 0
    while asked < REQUESTS or (least > allowed and asked < REQUESTS_IF_OVER):
        least = min(least, await _wave(server, counter, [make() for _ in range(WAVE)]) / WAVE)
        asked += WAVE
    return round(least, 1)


async def _wave(server: InProcess, counter: CallCounter, asked: list[Asked]) -> int:
    before = counter.total()
    answers = await asyncio.gather(*map(server.answered, asked))
    calls = counter.total() - before
    for request, got in zip(asked, answers, strict=True):
        server.check(request, got)
    return calls
