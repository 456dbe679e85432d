"""`holdfast audit`."""

import time
from typing import Annotated

import typer
from msgspec import to_builtins

from holdfast.audit.ask import Timeline, ask
from holdfast.audit.search import Question
from holdfast.cli.ledger import is_new, run
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table, warn
from holdfast.cli.times import moment, since
from holdfast.http.contract.schemas.operate import TimelineOut

app = typer.Typer()


@app.command(
    "audit",
    epilog=examples(
        "holdfast audit --buyer ada",
        "holdfast audit --buyer ada --sale drop --since 2h",
        "holdfast audit --buyer ada --json | jq '.data[].what'",
    ),
)
def audit(
    buyer: Annotated[str, typer.Option(metavar="BUYER", help="The buyer.")],
    sale: Annotated[str | None, typer.Option(metavar="SALE", help="Only this sale.")] = None,
    sku: Annotated[str | None, typer.Option(metavar="SKU", help="Only this SKU.")] = None,
    after: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="15m, 2h, 7d or 2026-05-01T10:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Show the latest N entries.")] = 500,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that happened to a buyer.

    Combines the recorded refusals, the buyer's places in waiting rooms and the history of their reservations into one
    timeline, to answer the question: why did I not get one? The first line answers it in one sentence.
    """
    settings = settings_from(data)
    now_ms = time.time_ns() // 1_000_000
    question = Question(buyer, sku, sale, None if after is None else since(after, now_ms), limit=limit)
    timeline = Timeline(buyer, [], {}, [])
    if not is_new(settings):
        timeline = run(settings, lambda database: ask(database, settings.audit_directory, question))
    for name in timeline.unreadable:
        warn(f"skipped the unreadable segment {name}")
    if as_json:
        print_json(to_builtins(TimelineOut.of(timeline)))
    else:
        _print(timeline)


def _print(timeline: Timeline) -> None:
    if not timeline.moments:
        typer.echo(f"No records for buyer {timeline.owner_id!r}.")
        return
    typer.echo(timeline.summary)
    typer.echo()
    rows = [(moment(m.at), m.sku_id, m.what, m.reservation_id or m.request_id) for m in timeline.moments]
    print_table(["at (UTC)", "sku id", "what happened", "reservation or request"], rows, folded="what happened")
    typer.echo()
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in timeline.refusals.items())
    shed = ", ".join(f"{count:,} {reason}" for reason, count in timeline.shed.items())
    if shed:
        typer.echo(f"Turned away in this time, of all buyers: {shed}.")
    typer.echo(f"Refused: {counts or 'never'}.")
