"""`holdfast audit`."""

import time
from typing import Annotated

import typer

from holdfast.audit.ask import Timeline, ask
from holdfast.audit.body import timeline_body
from holdfast.audit.search import Question
from holdfast.cli.ledger import is_new, run
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table, warn
from holdfast.cli.times import moment, since

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
    buyer: Annotated[str, typer.Option(metavar="ID", help="Whose story it is.")],
    sale: Annotated[str | None, typer.Option(metavar="ID", help="Only what is of this sale.")] = None,
    sku: Annotated[str | None, typer.Option(metavar="ID", help="Only what is of this SKU.")] = None,
    after: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="15m, 2h, 7d or 2026-05-01T10:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The latest so many.")] = 500,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say what happened to a buyer, refusals included.

    Puts the refusals recorded in the data directory and the record of the buyer's reservations into one timeline, which
    answers the question: why did I not get one?
    """
    settings = settings_from(data)
    now_ms = time.time_ns() // 1_000_000
    question = Question(buyer, sku, sale, None if after is None else since(after, now_ms), limit=limit)
    timeline = Timeline(buyer, [], {}, [])
    if not is_new(settings):
        timeline = run(settings, lambda database: ask(database, settings.audit_directory, question))
    for name in timeline.unreadable:
        warn(f"the segment {name} cannot be read, and was left out")
    if as_json:
        print_json(timeline_body(timeline))
    else:
        _print(timeline)


def _print(timeline: Timeline) -> None:
    if not timeline.moments:
        typer.echo(f"Nothing is known of {timeline.owner_id!r} here.")
        return
    rows = [(moment(m.at), m.sku_id, m.what, m.reservation_id or m.request_id) for m in timeline.moments]
    print_table(["at (UTC)", "sku id", "what happened", "reservation or request"], rows, folded="what happened")
    typer.echo()
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in timeline.refusals.items())
    typer.echo(f"Refused: {told or 'never'}.")
