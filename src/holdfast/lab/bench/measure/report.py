"""Measured figures, as tables and as JSON."""

from typing import Any

from msgspec import Struct

from holdfast.lab.bench.measure.rounds import Measured
from holdfast.lab.load.latency import Latency


class Memory(Struct, frozen=True):
    """Resident memory of the server before and after the given number of requests."""

    before: float
    after: float
    attempts: int
    samples: list[float] = []

    def in_words(self) -> str:
        if not self.samples:
            return f"memory: {self.before} MB before, {self.after} MB after {self.attempts:,} attempts"
        tenths = " ".join(f"{sample:.0f}" for sample in self.samples)
        return f"memory over {self.attempts:,} attempts, at every tenth: {tenths} MB"


class Table(Struct, frozen=True):
    title: str
    columns: list[str]
    rows: list[list[object]]


def machine_line(machine: dict[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['cpu']}, fsync {machine['fsync_ms']} ms, {machine['date']}"


class Report(Struct, frozen=True):
    title: str
    measured: dict[str, Measured]
    compared: dict[str, tuple[str, str]]
    """The dividend and divisor of each ratio, by the ratio's name."""
    machine: dict[str, Any]
    open_loop: dict[str, Measured] = {}
    memory: Memory | None = None

    @property
    def figures(self) -> dict[str, float]:
        return {name: measured.per_second for name, measured in self.measured.items()}

    @property
    def ratios(self) -> dict[str, float]:
        figures = self.figures
        return {name: round(figures[ours] / figures[theirs], 3) for name, (ours, theirs) in self.compared.items()}

    @property
    def latencies(self) -> dict[str, Latency]:
        known = {name: each.latency for name, each in (self.measured | self.open_loop).items()}
        return {name: latency for name, latency in known.items() if latency is not None}

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "figures": self.figures,
            "ratios": self.ratios,
            "latency_ms": {name: {"p50": each.p50_ms, "p99": each.p99_ms} for name, each in self.latencies.items()},
            "machine": self.machine,
            "rounds": {name: measured.rounds for name, measured in self.measured.items()},
        }
        if self.memory is not None:
            body["memory_mb"] = {name: getattr(self.memory, name) for name in Memory.__struct_fields__}
        return body

    def tables(self) -> list[Table]:
        return [Table(self.title, COLUMNS, self._rows())]

    def _rows(self) -> list[list[object]]:
        rows = [self._row(name, measured, name) for name, measured in self.measured.items()]
        return rows + [self._row(f"{name} (open loop)", measured, "") for name, measured in self.open_loop.items()]

    def notes(self) -> list[str]:
        """The lines below the table."""
        ratios = self.ratios
        notes = [
            f"{name}: {ours} ÷ {theirs} = {ratios[name]:.2f}"
            for name, (ours, theirs) in self.compared.items()
            if name not in self.measured
        ]
        notes += [
            f"{name}: {self.measured[ours].best / self.measured[name].best:.2f} of it in the best rounds"
            for name, (ours, theirs) in self.compared.items()
            if name == theirs and len(self.measured[name].rounds) > 1
        ]
        if self.machine.get("go_peer"):
            notes.append(f"Go peer: {self.machine['go_peer']}")
        if self.memory is not None:
            notes.append(self.memory.in_words())
        return [*notes, machine_line(self.machine)]

    def _row(self, shown: str, measured: Measured, name: str) -> list[object]:
        latency = measured.latency
        low, high = min(measured.rounds), max(measured.rounds)
        ratio = self.ratios.get(name)
        return [
            shown,
            round(measured.per_second),
            f"{low:,.0f} to {high:,.0f}",
            None if ratio is None else round(ratio, 2),
            None if latency is None else round(latency.p50_ms, 1),
            None if latency is None else round(latency.p99_ms, 1),
            measured.about,
        ]


COLUMNS = ["figure", "per second", "lowest to highest", "ours ÷ that", "p50 ms", "p99 ms", "what was measured"]
