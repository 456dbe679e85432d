"""Runs many simulations, with one operating-system process per core."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from msgspec import Struct

from holdfast.lab.simulate.run import run

# Large enough to amortise starting a process, small enough to show progress.
PORTION = 20


class Result(Struct, frozen=True):
    seed: int
    violations: tuple[str, ...]
    faults: int
    simulated_s: float


def run_one(engine: str, seed: int) -> Result:
    report = run(seed, engine=engine)
    return Result(seed, tuple(map(str, report.violations)), len(report.faults), report.simulated_s)


def run_many(first: int, count: int, engine: str, processes: int | None = None) -> Iterator[Result]:
    """Yields results in the order of the seeds."""
    seeds = range(first, first + count)
    workers = min(processes or os.cpu_count() or 1, -(-count // PORTION))
    if workers <= 1:
        yield from map(partial(run_one, engine), seeds)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(run_one, engine), seeds, chunksize=PORTION)
