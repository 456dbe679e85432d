"""Our own load driver: the load client on uvloop, in its own process, which reads its task from stdin."""

import asyncio
import gc
import subprocess
import sys
from time import monotonic

import msgspec
import uvloop

from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.latency import latency_of
from holdfast.lab.load.loops import ClosedLoop, OpenLoop
from holdfast.lab.load.processes import python
from holdfast.lab.load.spec import Load, LoadResult

# How long to wait for responses after the last request was due.
GRACE_S = 10.0
_START_S = 30.0


async def run(load: Load) -> LoadResult:
    client = LoadClient("127.0.0.1", load.port, load.connections)
    loop = ClosedLoop(load, client) if load.rate_per_second is None else OpenLoop(load, client)
    await client.connect_all()
    loop.begin()
    try:
        async with asyncio.timeout(loop.last_due - monotonic() + GRACE_S):
            await loop.done
        failed = 0
    except TimeoutError:
        failed = load.connections
    finally:
        client.close()
    return _result(loop, failed)


def _result(loop: ClosedLoop | OpenLoop, failed: int) -> LoadResult:
    statuses = dict(loop.statuses)
    good = sum(count for status, count in statuses.items() if 200 <= status < 300)
    elapsed = max(loop.ended - loop.started, 1e-9)
    cut_off = 0 if loop.load.patience_s is None else loop.load.connections
    refused = sum(statuses.values()) - good
    return LoadResult(good, refused, elapsed, failed, cut_off, statuses, latency_of(loop.waits), loop.given_up)


def drive(load: Load) -> LoadResult:
    """Runs the driver in its own process, so that it takes no CPU time from this one."""
    try:
        done = subprocess.run(
            python("holdfast.lab.load.driver"),
            input=msgspec.json.encode(load),
            capture_output=True,
            timeout=load.longest_s + GRACE_S + _START_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise BenchFailed(f"the driver did not finish: {load.method} {load.path}") from exc
    if done.returncode != 0:
        raise BenchFailed(f"{load.method} {load.path}: {done.stderr.decode(errors='replace')[-1500:].strip()}")
    return msgspec.json.decode(done.stdout, type=LoadResult)


if __name__ == "__main__":
    gc.disable()
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(given))))
