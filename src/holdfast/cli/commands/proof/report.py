"""`holdfast report`."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.commands.selling.sales import SaleName
from holdfast.cli.ledger import is_new, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_json
from holdfast.cli.report.gather import gather
from holdfast.cli.report.page import page
from holdfast.cli.report.rows import write_csv, write_parquet
from holdfast.cli.report.sections import ProvenReport, held
from holdfast.cli.report.summary import body_of

app = typer.Typer()

File = Annotated[
    Path | None, typer.Option("--out", help="The page to write; default: SALE-report.html here.", metavar="FILE")
]
Csv = Annotated[Path | None, typer.Option("--csv", help="Also write it as CSV.", metavar="FILE")]
Parquet = Annotated[Path | None, typer.Option("--parquet", help="Also write it as Parquet.", metavar="FILE")]


@app.command(
    "report",
    epilog=examples(
        "holdfast report drop",
        "holdfast report drop --out drop.html --csv drop.csv --parquet drop.parquet",
        "holdfast report drop --json | jq .refusals",
    ),
)
def report(
    sale_id: SaleName,
    out: File = None,
    csv: Csv = None,
    parquet: Parquet = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of a sale as one HTML page.

    Sold, timeline, funnel, waits, refusals by reason, payments and incidents, with the proofs of conservation and of
    fairness: all checks of holdfast verify on the same snapshot. The page loads nothing and runs no script; print it to
    get a PDF. Exits 1 if a check fails. With --json the report is printed, and a page is written only with --out.
    """
    settings = settings_from(data)
    if is_new(settings):
        fail(f"there are no sales in {shown_url(settings)} yet")
    proven = gather(settings, sale_id)
    if out is not None or not as_json:
        out = out or Path(f"{sale_id}-report.html")
        out.write_text(page(proven), encoding="utf-8")
    written = [file for file in (out, _rows(proven, csv, parquet)) if file]
    if as_json:
        print_json(body_of(proven))
    else:
        typer.echo(f"Report of {sale_id} written to {', '.join(map(str, written))}; {held(proven.proof.findings)}.")
    raise typer.Exit(0 if proven.proof.ok else 1)


def _rows(proven: ProvenReport, csv: Path | None, parquet: Path | None) -> str:
    if csv is not None:
        write_csv(proven, csv)
    if parquet is not None:
        write_parquet(proven, parquet)
    return ", ".join(str(file) for file in (csv, parquet) if file is not None)
