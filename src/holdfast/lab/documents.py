"""Generates the parts of the documentation that repeat code and measurements: `python -m holdfast.lab.documents
[--check]`.

A block between `<!-- settings:begin [names] -->` and `<!-- settings:end -->` is the table of those settings, or of all;
`figures` are those of README, from the JSON file of the last `holdfast bench all`, which BENCHMARKS.md comes from too;
`plan` is the output of `holdfast plan` with the given options, `growing` the tables of GROWING.md, `approaches` that of
APPROACHES.md, `logfields` the fields of a log line. The clients come from the endpoint table, the schemas in
docs/events from the event types, METRICS.md and the Grafana dashboard from the metric table. With `--check` nothing is
written; every difference is listed, and so are links and paths to missing files, unknown settings and outdated
defaults.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from holdfast.lab.bench.document.approaches import approaches_table
from holdfast.lab.bench.document.markdown import milliseconds, number, percent, table, times
from holdfast.lab.bench.document.page import document
from holdfast.lab.bench.document.plots import plots_of
from holdfast.lab.bench.measure.results import FILE, Bench, Measured, read_measured
from holdfast.lab.clients import client_files, stale_client_files
from holdfast.lab.dashboard import dashboard
from holdfast.lab.growing import growing_tables
from holdfast.lab.log_fields import log_fields_table, log_schema
from holdfast.lab.metric_table import metrics_page
from holdfast.ledger.events.event_schemas import TYPES, event_schema
from holdfast.settings import Settings

DOCS = Path("docs")
SOURCE = Path("src/holdfast")
PLAN_FIGURES = SOURCE / "lab/plan/measured.json"

_BLOCK = re.compile(
    r"(<!-- (settings|figures|plan|growing|approaches|logfields):begin(.*?)-->\n).*?(<!-- \2:end -->)", re.DOTALL
)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_SOURCE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")
_SETTING = re.compile(r"\bHOLDFAST_[A-Z_]*[A-Z]\b")
_DEFAULT = re.compile(r"`(HOLDFAST_[A-Z_]+)` \((\w+)\)")
_NOT_SETTINGS = {
    "HOLDFAST_DEMO",  # Only `holdfast demo` sets it, so it is not in the table.
}
_FIELDS = {f"HOLDFAST_{name.upper()}": field for name, field in Settings.model_fields.items() if name != "demo"}


def pages() -> dict[Path, str]:
    """The expected content of every generated file."""
    measured = read_measured(DOCS)
    written = {path: rendered(path.read_text(), measured) for path in [Path("README.md"), *sorted(DOCS.rglob("*.md"))]}
    plots = {(DOCS / FILE).with_name(name): svg for name, svg in plots_of(measured).items()}
    made = {DOCS / "BENCHMARKS.md": document(measured), PLAN_FIGURES: (DOCS / FILE).read_text()}
    schemas = {DOCS / "events" / f"{name}.json": _indented(event_schema(name)) for name in TYPES}
    schemas[DOCS / "log.schema.json"] = _indented(log_schema())
    monitoring = {DOCS / "METRICS.md": metrics_page(), Path("deploy/grafana/holdfast.json"): dashboard()}
    return written | plots | made | schemas | client_files() | monitoring


def _indented(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


def rendered(text: str, measured: Measured) -> str:
    def block(match: re.Match[str]) -> str:
        begin, kind, words, end = match.groups()
        if kind == "growing":
            return f"{begin}{growing_tables(measured)}\n{end}"
        if kind == "approaches":
            return f"{begin}{approaches_table(measured)}\n{end}"
        if kind == "logfields":
            return f"{begin}{log_fields_table()}\n{end}"
        if kind == "figures":
            return f"{begin}{figures_table(measured)}\n{end}"
        return f"{begin}{settings_table(words.split()) if kind == 'settings' else plan_output(words.split())}\n{end}"

    return _BLOCK.sub(block, text)


def settings_table(names: list[str]) -> str:
    wanted = [f"HOLDFAST_{name.upper()}" for name in names] or list(_FIELDS)
    rows = [[f"`{name}`", _default(_FIELDS[name]), _FIELDS[name].description or ""] for name in wanted]
    return table(["setting", "default", "meaning"], rows)


def _default(field: FieldInfo) -> str:
    value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    if value is None or value == "":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def plan_output(options: list[str]) -> str:
    command = [sys.executable, "-m", "holdfast", "plan", *options]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = printed.partition("\n\nNext limits:")[0].splitlines()
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def figures_table(measured: Measured) -> str:
    gate, redis = _bench(measured, "gate", "sqlite"), _bench(measured, "gate", "redis")
    http, orders = (
        _bench(measured, "http", "sqlite"),
        [_bench(measured, "settlement", e) for e in ("sqlite", "postgres")],
    )
    waits = " / ".join(milliseconds(one.latency_ms["purchases"]["p99"]) for one in orders)
    update, skip_locked = times(gate.ratios["conditional_update"]), times(gate.ratios["skip_locked"])
    bulk = " / ".join(times(one.ratios["one_per_order"]) for one in orders)
    rows = {
        "durable reservations through the gate, SQLite file": (
            _rounded(gate),
            f"{update} a conditional `UPDATE` per request on PostgreSQL, {skip_locked} a row per unit + `SKIP LOCKED`",
        ),
        "the same over HTTP, one server process, 256 connections": (
            _rounded(http),
            f"{times(http.ratios['tutorial'])} FastAPI + Redis with one Lua call per request, not durable",
        ),
        "sold-out answers over HTTP": (
            _rounded(http, "sold_out"),
            f"{percent(http.ratios['sold_out_of_bare'])} of a bare ASGI handler with a constant response",
        ),
        "durable reservations through the gate, Valkey, every write synced": (
            _rounded(redis),
            f"{times(redis.ratios['call_per_command'])} one call per command from the same client",
        ),
        "orders paid from wallets, one hot pool, SQLite / PostgreSQL": (
            " / ".join(map(_rounded, orders)),
            f"{bulk} one transaction per order; p99 of concurrent purchases {waits} ms",
        ),
    }
    return table(["", "per second", "compared with"], [[what, *cells] for what, cells in rows.items()])


def _bench(measured: Measured, name: str, engine: str) -> Bench:
    found = measured.of(name, engine)
    assert found is not None, f"{name} was not measured on {engine}"
    return found


def _rounded(bench: Bench, name: str = "holdfast") -> str:
    return number(round(bench.figures[name], -2))


def problems(written: dict[Path, str]) -> Iterator[str]:
    for path, text in written.items():
        if not path.exists() or path.read_text() != text:
            yield f"{path} is out of date; run `make docs` or `python -m holdfast.lab.documents`"
        if path.suffix == ".md":
            yield from (f"{path}: {problem}" for problem in page_problems(path, text))
    yield from (f"{path} is not generated any more; remove it" for path in stale_client_files(written))


def page_problems(path: Path, text: str) -> Iterator[str]:
    yield from (f"broken link {link}" for link in _LINK.findall(text) if not (path.parent / link).exists())
    sources = [source for source in _SOURCE.findall(text) if not (Path(source).exists() or (SOURCE / source).exists())]
    yield from (f"no such file: {source}" for source in sources)
    unknown = set(_SETTING.findall(text)) - _FIELDS.keys() - _NOT_SETTINGS
    yield from (f"{name} is not a setting" for name in sorted(unknown))
    for name, default in _DEFAULT.findall(text):
        if name in _FIELDS and default != str(_FIELDS[name].default):
            yield f"the default of {name} is {_FIELDS[name].default}, not {default}"


def main() -> int:
    is_check = "--check" in sys.argv
    if not is_check:
        # Written first, because `holdfast plan` reads it.
        PLAN_FIGURES.write_text((DOCS / FILE).read_text())
    written = pages()
    if not is_check:
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in stale_client_files(written):
            path.unlink()
    found = list(problems(written))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
