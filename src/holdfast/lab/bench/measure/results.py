"""The results of `holdfast bench all`, kept in a file so that a single part can be measured again."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.errors import SettingsError

FILE = "benchmarks/figures.json"


class Bench(Struct):
    """The `--json` output of one part; fields that only some parts have are empty in the others."""

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
    oversold: dict[str, int] = {}
    tries: dict[str, float] = {}

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
        """Replaces an earlier result. If the part failed this time, its earlier result and date are kept."""
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
            for name in ("memory_mb", "curves", "worth", "oversold", "tries"):
                if not bench[name]:
                    del bench[name]
        return body


def read_measured(directory: Path | None) -> Measured:
    """Earlier results, if there are any."""
    if directory is None or not (directory / FILE).exists():
        return Measured("")
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Measured)
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"{directory / FILE} is not what `holdfast bench all` wrote: {exc}") from exc


def write_measured(measured: Measured, directory: Path) -> None:
    """Writes atomically: an interrupted write keeps the old file."""
    path = directory / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(measured.body()), indent=1) + b"\n")
    beside.replace(path)
