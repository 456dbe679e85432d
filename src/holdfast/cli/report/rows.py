"""The report as rows of one table, for spreadsheets and notebooks: section, name, happened_at, value, unit."""

import csv
from collections.abc import Iterator
from pathlib import Path

from holdfast.audit.engine import open_engine
from holdfast.cli.report.sections import ProvenReport, funnel
from holdfast.ledger.sales.report import SaleReport
from holdfast.runtime.times import rfc3339

COLUMNS = ("sale_id", "section", "name", "happened_at", "value", "unit")
Fact = tuple[str, str, str | None, int, str]
Row = tuple[str, str, str, str | None, int, str]


def rows_of(proven: ProvenReport) -> list[Row]:
    sale_id = proven.facts.sale.sale_id
    return [(sale_id, *row) for row in _facts(proven)]


def _facts(proven: ProvenReport) -> Iterator[Fact]:
    facts = proven.facts
    yield from (("stock", name, None, getattr(facts, name), "units") for name in ("total", "available", "held", "sold"))
    yield from (("funnel", step.name, None, step.number, "number") for step in funnel(facts))
    yield from (("reservations", status, None, each.units, "units") for status, each in facts.reservations.items())
    yield from (("refusals", outcome, None, number, "number") for outcome, number in facts.refusals.items())
    yield from _timeline(facts)
    yield from _waits(facts)
    yield from _money(facts)
    for incident in facts.incidents:
        yield "incidents", f"{incident.kind}: {incident.what}", rfc3339(incident.at), 1, "number"
        if incident.ended_at is not None:
            lasted = incident.ended_at - incident.at
            yield "incidents", f"{incident.kind}: how long it lasted", rfc3339(incident.at), lasted, "ms"
    yield from (("checks", finding.name, None, finding.count, "found") for finding in proven.proof.findings)


def _timeline(facts: SaleReport) -> Iterator[Fact]:
    for bar in facts.timeline:
        for name in ("reserved", "sold", "returned"):
            yield "timeline", name, rfc3339(bar.at), getattr(bar, name), "units"


def _waits(facts: SaleReport) -> Iterator[Fact]:
    for name, waits in facts.waits.items():
        for share in ("p50_ms", "p95_ms", "p99_ms", "max_ms"):
            yield "waits", f"{name}, {share.removesuffix('_ms')}", None, getattr(waits, share), "ms"


def _money(facts: SaleReport) -> Iterator[Fact]:
    for section in ("orders", "payments", "refunds"):
        for state, each in getattr(facts, section).items():
            yield section, state, None, each.number, "number"
            yield from ((section, state, None, amount, currency) for currency, amount in each.amounts.items())
    yield from (("declines", reason, None, number, "number") for reason, number in facts.declines.items())


def write_csv(proven: ProvenReport, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows_of(proven))


def write_parquet(proven: ProvenReport, file: Path) -> None:
    with open_engine() as engine:
        engine.execute(
            "CREATE TABLE report "
            "(sale_id TEXT, section TEXT, name TEXT, happened_at TIMESTAMPTZ, value BIGINT, unit TEXT)"
        )
        engine.executemany("INSERT INTO report VALUES (?, ?, ?, ?, ?, ?)", rows_of(proven))
        engine.execute("COPY report TO ? (FORMAT parquet, COMPRESSION zstd)", [str(file)])
