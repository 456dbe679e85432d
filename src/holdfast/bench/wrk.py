"""The driver for whom it is installed: wrk, in C, which leaves more of a small machine to the server.

wrk tells apart 2xx from all other answers, and no more; it stops without waiting for what is under way, and knows whole
seconds only.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import Answers, Load

# One thread keeps the numbers of the requests apart, and is more than any server here can answer.
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


def is_there() -> bool:
    return shutil.which("wrk") is not None


def version() -> str:
    told = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    return f"wrk {told[1]}" if len(told) > 1 else "wrk"


def drive(load: Load) -> Answers:
    seconds = max(1, round(load.seconds))
    with tempfile.TemporaryDirectory(prefix="holdfast-wrk-") as directory:
        script = Path(directory) / "load.lua"
        # A JSON string of plain ASCII is a Lua string, too.
        script.write_text(_SCRIPT.format(pieces=", ".join(map(json.dumps, load.pieces()))))
        command = ["wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)]
        try:
            done = subprocess.run(
                [*command, f"http://127.0.0.1:{load.port}{load.path}"],
                capture_output=True, text=True, timeout=seconds + 30, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as exc:
            raise BenchFailed(f"wrk did not end: {load.method} {load.path}") from exc
    found = _RESULT.search(done.stdout)
    if found is None:
        raise BenchFailed(f"wrk failed: {(done.stderr or done.stdout)[-1500:].strip()}")
    requests, microseconds, refused, failed = map(int, found.groups())
    return Answers(requests - refused, refused, microseconds / 1e6, failed, cut_off=load.connections)
