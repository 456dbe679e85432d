"""Our own driver: asyncio protocols on uvloop, in a process of its own, told what to do on stdin."""

import asyncio
import gc
import subprocess
import sys
from time import perf_counter

import msgspec
import uvloop
from msgspec.structs import replace

from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import Answers, Load
from holdfast.bench.loops import Caller, ClosedLoop, OpenLoop
from holdfast.bench.processes import python
from holdfast.bench.rounds import latency_of

# How long answers may still come after the last request was due.
GRACE_S = 10.0
_START_S = 30.0
_CONNECT_AT_ONCE = 64


async def run(load: Load) -> Answers:
    loop = ClosedLoop(load) if load.rate_per_second is None else OpenLoop(load)
    callers = await _connect(loop, load)
    loop.begin(callers)
    try:
        async with asyncio.timeout(loop.last_due - perf_counter() + GRACE_S):
            await loop.done
        failed = 0
    except TimeoutError:
        failed = load.connections
    return _answers(loop, failed)


async def _connect(loop: ClosedLoop | OpenLoop, load: Load) -> list[Caller]:
    """A few at a time: a crowd that connects at once is another measurement."""
    create = asyncio.get_running_loop().create_connection
    callers: list[Caller] = []
    while len(callers) < load.connections:
        count = min(_CONNECT_AT_ONCE, load.connections - len(callers))
        made = await asyncio.gather(*(create(lambda: Caller(loop), "127.0.0.1", load.port) for _ in range(count)))
        callers += [caller for _, caller in made]
    return callers


def _answers(loop: ClosedLoop | OpenLoop, failed: int) -> Answers:
    statuses = {int(status): count for status, count in loop.statuses.items()}
    good = sum(count for status, count in statuses.items() if 200 <= status < 300)
    elapsed = max(loop.ended - loop.started, 1e-9)
    answers = Answers(good, sum(statuses.values()) - good, elapsed, failed, 0, statuses)
    if isinstance(loop, ClosedLoop):
        return answers
    cut_off = 0 if loop.load.patience_s is None else loop.load.connections
    return replace(answers, latency=latency_of(loop.waits), given_up=loop.given_up, cut_off=cut_off)


def drive(load: Load) -> Answers:
    """Run the driver in a process of its own, so that it takes no time from anything else here."""
    try:
        done = subprocess.run(
            python("holdfast.bench.driver"),
            input=msgspec.json.encode(load),
            capture_output=True,
            timeout=load.longest_s + GRACE_S + _START_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise BenchFailed(f"the driver did not end: {load.method} {load.path}") from exc
    if done.returncode != 0:
        raise BenchFailed(f"{load.method} {load.path}: {done.stderr.decode(errors='replace')[-1500:].strip()}")
    return msgspec.json.decode(done.stdout, type=Answers)


if __name__ == "__main__":
    gc.disable()
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(given))))
