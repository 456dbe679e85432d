"""The parts of `holdfast bench all`, each its own command in its own process.

A part that fails does not affect the others, memory figures belong to one part alone, and each part can be repeated by
its command.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Timer
from typing import Any

from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.lab.bench.growth.run import planned_s
from holdfast.lab.bench.suites.http import LATENCIES, MEASUREMENTS
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import python
from holdfast.lab.load.watchdog import watched

ENGINES = ("sqlite", "postgres", "redis")
# Overhead in seconds for starting and stopping servers and loading data.
_AROUND_S = 12.0
# Growth has many points, so each is measured for only this share of a figure's time.
GROWTH_PART = 1 / 3
# A part is stopped after this multiple of its planned time, plus a constant.
_PATIENCE, _PATIENCE_S = 8.0, 180.0
_STOP_S = 30.0
_LEFT = ", about "


class Part(Struct, frozen=True):
    bench: str
    engine: str
    arguments: tuple[str, ...]
    measured_s: float

    @property
    def name(self) -> str:
        return f"{self.bench} on {self.engine}"

    @property
    def planned_s(self) -> float:
        return self.measured_s + _AROUND_S


def all_parts(seconds: float, up_to: int) -> list[Part]:
    def on(engines: Sequence[str], bench: str, times: float) -> list[Part]:
        return [_part(bench, engine, seconds, times * seconds) for engine in engines]

    each = seconds * GROWTH_PART
    growth = [
        _part("growth", engine, each, planned_s(engine, each, up_to), "--up-to", str(up_to)) for engine in ENGINES
    ]
    approaches = Part("approaches", "every", ("approaches", "--seconds", f"{seconds:g}"), 14 * seconds + 10)
    return [
        *on(ENGINES, "gate", 15),
        *on(ENGINES, "http", MEASUREMENTS + LATENCIES),
        # Settlement and the queue always run in the ledger, so Redis has no figures of its own.
        *on(ENGINES[:2], "room", 14),
        *on(ENGINES[:2], "settlement", 8),
        *growth,
        approaches,
    ]


def _part(bench: str, engine: str, seconds: float, measured_s: float, *more: str) -> Part:
    arguments = (bench, "--engine", engine, "--seconds", f"{max(seconds, 0.1):g}", *more)
    return Part(bench, engine, arguments, measured_s)


def choose(parts: Sequence[Part], only: str | None) -> list[Part]:
    """`only` names benches, or a bench on one engine: `http,growth:redis`."""
    if only is None:
        return list(parts)
    wanted = [name.strip() for name in only.split(",")]
    known = {part.bench for part in parts} | {f"{part.bench}:{part.engine}" for part in parts}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SettingsError(f"--only: there is no {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return [part for part in parts if part.bench in wanted or f"{part.bench}:{part.engine}" in wanted]


def run_part(part: Part, tell: Callable[[str], None]) -> dict[str, Any]:
    """Returns the part's `--json` output. A part that is stopped stops its own servers first."""
    command = python("holdfast", "bench", *part.arguments, "--json")
    with (
        tempfile.TemporaryFile() as output,
        # In its own session, so that Ctrl-C reaches it once, through us.
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as child,
        watched(child.pid),
    ):
        too_long = Timer(_PATIENCE_S + _PATIENCE * part.planned_s, _stop, [child])
        too_long.start()
        try:
            last_words = _listen(child, tell)
        finally:
            too_long.cancel()
            _stop(child)
        output.seek(0)
        return _body(child.returncode, output.read(), last_words)


def _listen(child: "subprocess.Popen[str]", tell: Callable[[str], None]) -> list[str]:
    last_words: list[str] = []
    assert child.stderr is not None
    for line in child.stderr:
        words = line.strip()
        if words.endswith(" s left") and _LEFT in words:
            tell(words.rpartition(_LEFT)[0])
        elif words:
            last_words = [*last_words[-4:], words]
    child.wait()
    return last_words


def _stop(child: "subprocess.Popen[str]") -> None:
    if child.poll() is not None:
        return
    # The child handles SIGTERM like Ctrl-C, even where SIGINT is ignored.
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_STOP_S)
    # Kills the child if it is still running, and any server that was being started when the child was interrupted.
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _body(status: int, printed: bytes, last_words: Sequence[str]) -> dict[str, Any]:
    try:
        body: dict[str, Any] = json.loads(printed)
    except ValueError:
        body = {}
    if status != 0 or "figures" not in body:
        words = body.get("error") or " / ".join(last_words)
        raise BenchFailed(words or f"it ended with {status} and said nothing")
    return body
