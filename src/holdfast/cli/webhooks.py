"""`holdfast webhooks`."""

from typing import Annotated, Literal, NoReturn

import typer

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table
from holdfast.cli.times import date, moment
from holdfast.domain.event_type import EVENT_PATTERNS
from holdfast.errors import SettingsError
from holdfast.http.webhook_schemas import delivery_body, moment_ms, new_webhook_body, webhook_body
from holdfast.ledger.database import Database
from holdfast.ledger.deliveries import Delivery, find_delivery, list_deliveries, retry_delivery
from holdfast.ledger.webhooks import create_webhook, find_webhook, list_webhooks
from holdfast.settings import Settings
from holdfast.settlement.outbox import desk
from holdfast.settlement.outbox.address import check_url

app = typer.Typer(
    help="Who hears of events, and what was sent to them.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast webhooks add https://shop.example/hooks --event 'order.*'",
        "holdfast webhooks deliveries WEBHOOK_ID --state parked",
        "holdfast webhooks replay WEBHOOK_ID --since 2027-01-31T12:00:00Z",
    ),
)

WebhookId = Annotated[str, typer.Argument(help="As shown by: holdfast webhooks list", metavar="WEBHOOK_ID")]


def _pattern(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        if pattern not in EVENT_PATTERNS:
            raise SettingsError(f"--event {pattern!r} is not known; use one of: {', '.join(sorted(EVENT_PATTERNS))}")
    return patterns


@app.command("add", epilog=examples("holdfast webhooks add https://shop.example/hooks --event 'order.*'"))
def add(
    url: Annotated[str, typer.Argument(help="Where events are posted.", metavar="URL")],
    event: Annotated[
        list[str],
        typer.Option(
            help="A type of event, `order.*`, or `*`. Give it several times.", metavar="TYPE", callback=_pattern
        ),
    ],
    description: Annotated[str | None, typer.Option(help="What it is for.", metavar="TEXT")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have events posted to an address. The secret that signs them is shown once."""
    settings = settings_from(data)
    try:
        checked = check_url(url, private=settings.calls_private_webhooks)
    except ValueError as exc:
        raise SettingsError(f"the address {exc}") from exc
    made = write(settings, lambda connection, now: create_webhook(connection, checked, event, description, now))
    if as_json:
        print_json(new_webhook_body(made))
        return
    typer.echo(f"Webhook {made.webhook_id} hears of: {', '.join(made.events)}.")
    typer.echo(f"Receivers verify with this secret, which is not shown again:\n\n  {made.secret}\n")


@app.command("list")
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List the webhooks."""
    settings = settings_from(data)
    found = [] if is_new(settings) else run(settings, lambda database: database.read(list_webhooks))
    if as_json:
        print_json({"data": [webhook_body(webhook) for webhook in found]})
    elif found:
        rows = [(w.webhook_id, w.url, ", ".join(w.events), date(w.created_at), date(w.disabled_at)) for w in found]
        print_table(["webhook id", "address", "events", "created", "disabled"], rows, folded="address")
    else:
        typer.echo(f"There is no webhook in {shown_url(settings)}.")


@app.command("remove")
def remove(webhook_id: WebhookId, data: Data = None, as_json: AsJson = False) -> None:
    """Remove a webhook and all that waits for it."""
    settings = settings_from(data)
    if is_new(settings) or not run(settings, lambda database: desk.remove(database, webhook_id)):
        _unknown(settings)
    if as_json:
        print_json({"webhook_id": webhook_id, "removed": True})
    else:
        typer.echo(f"Webhook {webhook_id} is removed.")


@app.command("deliveries")
def deliveries(
    webhook_id: WebhookId,
    state: Annotated[
        Literal["waiting", "done", "parked", "dropped"] | None, typer.Option(help="Only those.", metavar="STATE")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000, metavar="N")] = 20,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """What was sent to a webhook, newest first."""
    settings = settings_from(data)

    async def find(database: Database) -> tuple[list[Delivery], bool] | None:
        if await database.read(lambda c: find_webhook(c, webhook_id)) is None:
            return None
        return await database.read(lambda c: list_deliveries(c, webhook_id, limit=limit, state=state))

    found = None if is_new(settings) else run(settings, find)
    if found is None:
        _unknown(settings)
    page, has_more = found
    if as_json:
        print_json({"data": [delivery_body(delivery) for delivery in page], "has_more": has_more})
        return
    rows = [(d.delivery_id, d.type, d.state, d.attempts, d.reason, moment(d.created_at)) for d in page]
    print_table(["delivery id", "type", "state", "attempts", "reason", "created (UTC)"], rows, folded="delivery id")


@app.command("replay")
def replay(
    webhook_id: WebhookId,
    since: Annotated[str | None, typer.Option(help="Everything made since this time.", metavar="TIME")] = None,
    delivery: Annotated[str | None, typer.Option(help="This one.", metavar="DELIVERY_ID")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send deliveries again, under their old ids."""
    if (since is None) is (delivery is None):
        raise SettingsError("give either --since TIME or --delivery DELIVERY_ID")
    settings = settings_from(data)
    replayed = None if is_new(settings) else run(settings, lambda db: _replay(db, webhook_id, since, delivery))
    if replayed is None:
        _unknown(settings)
    if as_json:
        print_json({"replayed": replayed})
    else:
        typer.echo(f"{replayed} deliveries go out again.")


async def _replay(database: Database, webhook_id: str, since: str | None, delivery_id: str | None) -> int | None:
    if await database.read(lambda c: find_webhook(c, webhook_id)) is None:
        return None
    if delivery_id is None:
        return await desk.replay(database, webhook_id, _moment(since or ""))
    found = await database.read(lambda c: find_delivery(c, delivery_id))
    if found is None or found.webhook_id != webhook_id:
        return 0
    return int(await database.write(lambda c: retry_delivery(c, delivery_id, database.now_ms(c))))


def _moment(text: str) -> int:
    try:
        return moment_ms(text)
    except ValueError as exc:
        raise SettingsError("--since must be a time such as 2027-01-31T12:00:00Z") from exc


def _unknown(settings: Settings) -> NoReturn:
    complain(f"there is no webhook by this id in {shown_url(settings)}", "List them with: holdfast webhooks list")
    raise typer.Exit(1)
