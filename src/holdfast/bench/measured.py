"""What `holdfast bench all` has measured, kept in a file, so that one part can be measured anew."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.errors import SettingsError

FILE = "benchmarks/figures.json"


class Bench(Struct):
    """One part, as its `--json` tells it; what only some have is empty in the others."""

    bench: str
    engine: str
    figures: dict[str, float]
    ratios: dict[str, float]
    machine: dict[str, Any]
    latency_ms: dict[str, dict[str, float]] = {}
    rounds: dict[str, list[float]] = {}
    memory_mb: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    worth: dict[str, dict[str, str]] = {}

    @property
    def date(self) -> str:
        return str(self.machine.get("date", ""))


class Failed(Struct):
    bench: str
    engine: str
    reason: str
    date: str


class Measured(Struct):
    date: str
    benches: list[Bench] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def of(self, bench: str, engine: str) -> Bench | None:
        return next((one for one in self.benches if (one.bench, one.engine) == (bench, engine)), None)

    def put(self, measured: Bench | Failed, order: list[tuple[str, str]]) -> None:
        """In place of what was there. What failed now was measured before, perhaps: that stays, with its date."""
        self.date = measured.date
        self.failed = [one for one in self.failed if (one.bench, one.engine) != (measured.bench, measured.engine)]
        if isinstance(measured, Failed):
            self.failed.append(measured)
            return
        others = [one for one in self.benches if (one.bench, one.engine) != (measured.bench, measured.engine)]
        places = {place: number for number, place in enumerate(order)}
        self.benches = sorted([*others, measured], key=lambda one: places.get((one.bench, one.engine), len(places)))

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.to_builtins(self)
        for bench in body["benches"]:
            for name in ("memory_mb", "curves", "worth"):
                if not bench[name]:
                    del bench[name]
        return body


def read_measured(directory: Path | None) -> Measured:
    """What is there already; nothing, if there is nothing."""
    if directory is None or not (directory / FILE).exists():
        return Measured("")
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Measured)
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"{directory / FILE} is not what `holdfast bench all` wrote: {exc}") from exc


def write_measured(measured: Measured, directory: Path) -> None:
    """All of it or nothing: whoever is stopped here keeps the file as it was."""
    path = directory / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(measured.body()), indent=1) + b"\n")
    beside.replace(path)
