"""The wrk driver, for machines that have it: written in C, it leaves more CPU time of a small machine to the server.

wrk reports only whether a status was 2xx, stops without waiting for requests in flight, and supports whole seconds
only.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.spec import Load, LoadResult

# A single thread keeps request numbers unique, and is faster than any server here.
_SCRIPT = """
local pieces = {{ {pieces} }}
local number = 0
function request()
  number = number + 1
  return table.concat(pieces, string.format("%012d", number))
end
function done(summary)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.timeout
  print(string.format("holdfast %d %d %d %d", summary.requests, summary.duration, e.status, failed))
end
"""
_RESULT = re.compile(r"^holdfast (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)


# Only reports results: wrk itself builds the request once.
_FIXED = """
wrk.method = {method}
function done(summary)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.timeout
  print(string.format("holdfast %d %d %d %d", summary.requests, summary.duration, e.status, failed))
end
"""


class Fixed(Struct, frozen=True):
    """The identical request, repeated."""

    port: int
    method: str
    path: str
    headers: dict[str, str] = {}
    connections: int = 256
    seconds: float = 1.0


def is_there() -> bool:
    return shutil.which("wrk") is not None


def version() -> str:
    printed = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    return f"wrk {printed[1]}" if len(printed) > 1 else "wrk"


def drive(load: Load) -> LoadResult:
    # A JSON string of plain ASCII is also a Lua string.
    return _run(load, _SCRIPT.format(pieces=", ".join(map(json.dumps, load.pieces()))), [])


def drive_fixed(load: Fixed) -> LoadResult:
    headers = [part for name, value in load.headers.items() for part in ("-H", f"{name}: {value}")]
    return _run(load, _FIXED.format(method=json.dumps(load.method)), headers)


def _run(load: Load | Fixed, text: str, options: list[str]) -> LoadResult:
    seconds = max(1, round(load.seconds))
    with tempfile.TemporaryDirectory(prefix="holdfast-wrk-") as directory:
        script = Path(directory) / "load.lua"
        script.write_text(text)
        command = ["wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)]
        try:
            done = subprocess.run(
                [*command, *options, f"http://127.0.0.1:{load.port}{load.path}"],
                capture_output=True, text=True, timeout=seconds + 30, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as exc:
            raise BenchFailed(f"wrk did not end: {load.method} {load.path}") from exc
    found = _RESULT.search(done.stdout)
    if found is None:
        raise BenchFailed(f"wrk failed: {(done.stderr or done.stdout)[-1500:].strip()}")
    requests, microseconds, refused, failed = map(int, found.groups())
    return LoadResult(requests - refused, refused, microseconds / 1e6, failed, cut_off=load.connections)
