"""Splits the CPU time of a request by part. The interpreter is interrupted after each millisecond of CPU time, and the
sample is charged to the innermost function that belongs to a part. A busy machine changes the times, but hardly the
shares."""

import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from types import FrameType

import uvloop
from msgspec import Struct

import holdfast
from holdfast.lab.bench.budgets.in_process import Asked, InProcess, open_in_process, stores_of
from holdfast.lab.load.driver import drive
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.processes import clean_environment, python, running
from holdfast.lab.load.servers import START_TIMEOUT_S, answers
from holdfast.lab.load.spec import Load
from holdfast.runtime.log import set_up_logging

SAMPLE_S = 0.001
# Enough for a few thousand samples of the cheapest request.
REQUESTS, WAVE = 20_000, 128
BARE_REQUESTS = 30_000
ELSEWHERE = "event loop"
_ROOT = str(Path(holdfast.__file__).parent) + "/"

# By module path. The first part that matches the innermost frame counts.
PARTS: dict[str, tuple[str, ...]] = {
    "hand-over": ("http/server/rsgi", "http/server/reading", "http/protection/slow", "lab/bench/budgets/in_process"),
    "routing": ("http/server/router", "http/server/app", "http/contract/path_parameters"),
    "authentication": ("access/identity", "access/quick_tokens"),
    "limits": ("http/protection/", "runtime/token_bucket", "runtime/concurrency_limit", "runtime/client_address"),
    "decode": ("http/contract/decoding",),
    "use case, submit": ("checkout/", "gate/batcher", "gate/winners", "gate/confirmed", "runtime/batching", "sales/"),
    "batch": ("ledger/", "gate/", "domain/"),
    "answer": ("http/endpoints/", "http/contract/", "access/receipts", "runtime/times", "runtime/signing", "audit/"),
    "metrics": ("runtime/metrics", "runtime/counters"),
}


class Share(Struct, frozen=True):
    """The result for one kind of request: total CPU time in microseconds, and by part."""

    engine: str
    kind: str
    total_us: float
    parts: dict[str, float]


def shares(engine: str) -> list[Share]:
    set_up_logging("warning")
    with stores_of(engine) as (directory, stores):
        return uvloop.run(_all_shares(engine, directory, stores))


async def _all_shares(engine: str, directory: Path, stores: dict[str, str]) -> list[Share]:
    async with open_in_process(directory, **stores) as server:
        return [await share_of(engine, kind, server, make) for kind, make in (await server.kinds()).items()]


def granian_us() -> float:
    """CPU time of a server that only returns a constant: the cost of passing a request to Python and back."""
    import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - comes with the bench extra

    port = free_port()
    command = python("holdfast.lab.bench.baselines.bare_handler", str(port), "rsgi")
    load = Load(port, "POST", "/v1/inventory/bench/reserve", '{"quantity":1}', "Bearer hf_0", requests=BARE_REQUESTS)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-shares-") as directory,
        running("bare", command, Path(directory), clean_environment()) as process,
    ):
        process.await_ready(lambda: answers(f"http://127.0.0.1:{port}/"), START_TIMEOUT_S)
        watched = psutil.Process(process.pid)
        before = watched.cpu_times()
        answered = drive(load).good
        after = watched.cpu_times()
    spent_s: float = after.user + after.system - before.user - before.system
    return round(spent_s / answered * 1e6, 1)


async def share_of(engine: str, kind: str, server: InProcess, make: Callable[[], Asked]) -> Share:
    await _waves(server, make, REQUESTS // 20)
    samples: Counter[str] = Counter()
    started = process_time()
    with _sampled(samples):
        await _waves(server, make, REQUESTS)
    # Creating requests and checking responses is not the server's work.
    total, own = sum(samples.values()), samples.pop("", 0)
    each_us = (process_time() - started) / REQUESTS * 1e6 / total
    parts = {part: round(samples[part] * each_us, 1) for part in (*PARTS, ELSEWHERE)}
    return Share(engine, kind, round((total - own) * each_us, 1), parts)


async def _waves(server: InProcess, make: Callable[[], Asked], requests: int) -> None:
    for _ in range(requests // WAVE):
        asked = [make() for _ in range(WAVE)]
        for request, got in zip(asked, await asyncio.gather(*map(server.answered, asked)), strict=True):
            server.check(request, got)


@contextmanager
def _sampled(samples: Counter[str]) -> Iterator[None]:
    def note(_signal: int, frame: FrameType | None) -> None:
        samples[_part_of(frame)] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _part_of(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_ROOT):
            part = part_of_module(path.removeprefix(_ROOT))
            if part is not None:
                return part
        elif path.endswith("asyncio/tasks.py") and frame.f_code.co_name in ("gather", "_done_callback"):
            return ""
        frame = frame.f_back
    return ELSEWHERE


def part_of_module(path: str) -> str | None:
    """The part that a module belongs to, by its path within the package. Code that creates requests has the part ""."""
    if path.startswith(("lab/bench/budgets/shares", "lab/load/")):
        return ""
    return next((part for part, paths in PARTS.items() if path.startswith(paths)), None)
