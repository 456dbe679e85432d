"""`holdfast bench all`: runs all parts one after the other, and saves each result before the next part starts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.lab.bench.document.page import write_document
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.results import Bench, Failed, Measured, read_measured, write_measured
from holdfast.lab.bench.parts import Part, run_part
from holdfast.lab.charts.docs_plots import check_matplotlib
from holdfast.lab.load.failure import BenchFailed

REASON_MAX = 300


def bench_all(parts: Sequence[Part], order: Sequence[Part], out: Path | None) -> Measured:
    """Measures these parts. With `out`, keeps earlier results of other parts and writes everything there."""
    if out is not None:
        check_matplotlib()
    measured = read_measured(out)
    places = [(part.bench, part.engine) for part in order]
    try:
        with Progress(sum(part.planned_s for part in parts)).shown() as progress:
            for number, part in enumerate(parts, 1):
                name = f"{part.name} ({number} of {len(parts)})"
                with progress.step(name, part.planned_s):
                    measured.put(_measure(part, name, progress), places)
                if out is not None:
                    write_measured(measured, out)
    finally:
        # Runs after Ctrl-C as well.
        if out is not None and measured.benches:
            write_document(measured, out)
    return measured


def _measure(part: Part, name: str, progress: Progress) -> Bench | Failed:
    try:
        body = run_part(part, lambda words: progress.tell(f"{name}: {words}"))
        return msgspec.convert({"bench": part.bench, "engine": part.engine, **body}, Bench)
    except (BenchFailed, msgspec.ValidationError) as exc:
        reason = " ".join(str(exc).split())[:REASON_MAX]
        return Failed(part.bench, part.engine, reason, datetime.now(UTC).isoformat(timespec="seconds"))
