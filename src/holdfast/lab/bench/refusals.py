"""Measures the cost of recording refusals: `python -m holdfast.lab.bench.refusals`. Needs no server."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median

import typer

from holdfast.audit.archivist import Archivist
from holdfast.audit.recorder import Recorder
from holdfast.audit.search import Question, search
from holdfast.audit.segments import archived, raw
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome

REFUSALS = 1_000_000
# Ten refusals per buyer, as an impatient buyer collects.
BUYERS = 100_000
# The number of refusals by one process between two writes, so that the writer thread takes part as in a server.
BURST = 2_000


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        typer.echo(f"note: {_record(directory):,.0f} ns per refusal, median of bursts of {BURST:,}")
        size = sum(path.stat().st_size for path in raw(directory))
        typer.echo(f"raw: {size / REFUSALS:.1f} bytes per refusal")
        _time("search of raw segments", lambda: _search(directory))
        _time("archiving", lambda: Archivist(directory, 30).pass_once())
        size = sum(path.stat().st_size for path in archived(directory))
        typer.echo(f"Parquet: {size / REFUSALS:.1f} bytes per refusal, {len(archived(directory))} segments")
        _time("search of Parquet", lambda: _search(directory))


def _record(directory: Path) -> float:
    recorder = Recorder(directory)
    recorder.start()
    took, chance = [], Random(1)
    for burst in range(REFUSALS // BURST):
        verdict = Verdict(Outcome.ALL_HELD, available=0, next_return_at=1_700_000_000_000 + burst)
        asked = [(_buyer(chance.randrange(BUYERS)), f"{chance.getrandbits(48):012x}-{n:x}") for n in range(BURST)]
        started = time.perf_counter_ns()
        for owner_id, request_id in asked:
            recorder.note(verdict, "sneaker-2026", owner_id, 1, request_id, "summer-drop")
        took.append((time.perf_counter_ns() - started) / BURST)
    recorder.stop()
    return median(took)


def _buyer(number: int) -> str:
    return f"buyer-{number:06}"


def _search(directory: Path) -> None:
    assert search(directory, Question(_buyer(42))).counts["all_held"] > 0


def _time(what: str, work: Callable[[], object]) -> None:
    started, used = time.perf_counter(), time.process_time()
    work()
    typer.echo(f"{what}: {time.perf_counter() - started:.2f} s, {time.process_time() - used:.2f} s of one core")


if __name__ == "__main__":
    main()
