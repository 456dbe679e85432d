"""The whole of BENCHMARKS.md."""

from importlib.resources import files
from pathlib import Path

from holdfast.bench.document import sections
from holdfast.bench.document.aims import AIMS, GROWTH_AIMS, Aim, judge
from holdfast.bench.document.columns import SHOWN
from holdfast.bench.document.growing import growth
from holdfast.bench.document.machines import date_words, fsync_words, machine_words, version_words
from holdfast.bench.document.markdown import paragraph, table
from holdfast.bench.document.plots import plots_of
from holdfast.bench.measured import FILE, Measured

_READ = """Written by `holdfast bench all --out docs`, whole: change nothing here by hand.

Every figure is the median of up to three rounds, and the rounds of all figures of a bench are interleaved, ours and the
baselines, because a shared machine has fast and slow minutes: read the ratios before the figures. Every reservation
that is counted was on disk before it was answered (`synchronous=FULL`, `fsync=on`, `appendfsync always`) unless it says
otherwise, and after every round the engine was asked whether it holds what was counted; a bench whose count differs
fails. Load, servers and engines share the cores: a figure over HTTP is what one machine does with everything on it."""
_SECTIONS = {
    "The gate": ("gate", sections.gate),
    "Over HTTP": ("http", sections.http),
    "Settlement": ("settlement", sections.settlement),
    "The room": ("room", sections.room),
    "Growth": ("growth", growth),
    "Approaches": ("approaches", sections.approaches),
}


def write_document(measured: Measured, directory: Path) -> None:
    plots = (directory / FILE).parent
    plots.mkdir(parents=True, exist_ok=True)
    for name, svg in plots_of(measured).items():
        (plots / name).write_text(svg, encoding="utf-8")
    (directory / "BENCHMARKS.md").write_text(document(measured), encoding="utf-8")


def document(measured: Measured) -> str:
    pieces = ["# Benchmarks", _READ, _machine(measured), _failed(measured), "## Aims", _aims(measured)]
    for title, (bench, section) in _SECTIONS.items():
        if any(one.bench == bench for one in measured.benches):
            pieces += [f"## {title}", section(measured)]
    by_hand = files("holdfast.bench.document").joinpath("by_hand.md").read_text(encoding="utf-8")
    return "\n\n".join(piece.strip() for piece in [*pieces, "## Measured by hand", by_hand] if piece) + "\n"


def _machine(measured: Measured) -> str:
    lines = {
        "machine": f"{machine_words(measured)} One page to disk takes {fsync_words(measured)}.",
        "versions": f"{version_words(measured)}.",
        "measured": f"{date_words(measured)}.",
        "seconds": ", ".join(_seconds(measured)) + ".",
        "figures": f"[{FILE}]({FILE}), with every round.",
    }
    return "\n".join(paragraph(f"- {name}: {words}") for name, words in lines.items())


def _seconds(measured: Measured) -> list[str]:
    seen: dict[str, list[str]] = {}
    for bench in measured.benches:
        told = seen.setdefault(f"{bench.machine.get('seconds', 0):g} s", [])
        if bench.bench not in told:
            told.append(bench.bench)
    return [f"{seconds} for each figure of {' and '.join(benches)}" for seconds, benches in seen.items()]


def _failed(measured: Measured) -> str:
    told = [f"- {one.bench} on {one.engine}, {one.date[:10]}: {one.reason}" for one in measured.failed]
    return "\n".join(["**Failed when it was measured last:**", "", *told]) if told else ""


def _aims(measured: Measured) -> str:
    growing = f"From 1,000 reservations held, or people in line, to {_largest(measured)}:"
    return "\n\n".join([_judged(measured, AIMS), growing, _judged(measured, GROWTH_AIMS)])


def _largest(measured: Measured) -> str:
    """Parts that were measured on other days may have gone less far."""
    seen: dict[int, list[str]] = {}
    for engine, shown in SHOWN.items():
        bench = measured.of("growth", engine)
        if bench is not None:
            seen.setdefault(bench.machine.get("up_to", 0), []).append(shown)
    if len(seen) < 2:
        return "".join(f"{size:,}" for size in seen) or "any"
    return ", ".join(f"{size:,} ({', '.join(engines)})" for size, engines in seen.items())


def _judged(measured: Measured, aims: tuple[Aim, ...]) -> str:
    rows = []
    for aim in aims:
        told = {one.engine: " ".join([one.value, f"**{one.verdict}**"]).strip() for one in judge(measured, (aim,))}
        rows.append([aim.words, *(told.get(engine, "") for engine in SHOWN)])
    return table(["aim", *SHOWN.values()], rows)
