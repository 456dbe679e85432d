"""`holdfast webhooks`."""

import time
from typing import Annotated, Literal, NoReturn

import typer
from msgspec import to_builtins

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import date, moment
from holdfast.cli.times import since as moment_since
from holdfast.domain.stock.event_type import EVENT_PATTERNS
from holdfast.errors import SettingsError
from holdfast.http.contract.schemas.webhooks import DeliveryOut, NewWebhookOut, WebhookOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import Delivery, find_delivery, list_deliveries, retry_delivery
from holdfast.ledger.events.webhooks import create_webhook, find_webhook, list_webhooks
from holdfast.runtime.outgoing.address import check_url
from holdfast.settings import Settings
from holdfast.webhooks import admin

app = typer.Typer(
    help="Manage webhooks and inspect their deliveries.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast webhooks add https://shop.example/hooks --event 'order.*'",
        "holdfast webhooks deliveries WEBHOOK_ID --state parked",
        "holdfast webhooks replay WEBHOOK_ID --since 2027-01-31T12:00:00Z",
    ),
)

WebhookId = Annotated[str, typer.Argument(help="As shown by holdfast webhooks list.", metavar="WEBHOOK_ID")]


def _pattern(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        if pattern not in EVENT_PATTERNS:
            raise SettingsError(f"--event {pattern!r} is unknown; use one of: {', '.join(sorted(EVENT_PATTERNS))}")
    return patterns


@app.command("add", epilog=examples("holdfast webhooks add https://shop.example/hooks --event 'order.*'"))
def add(
    url: Annotated[str, typer.Argument(help="The URL to post events to.", metavar="URL")],
    event: Annotated[
        list[str],
        typer.Option(help="An event type, `order.*` or `*`; repeat for several.", metavar="TYPE", callback=_pattern),
    ],
    description: Annotated[str | None, typer.Option(help="A note for people.", metavar="TEXT")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook. Its signing secret is shown once."""
    settings = settings_from(data)
    try:
        checked = check_url(url, private=settings.webhook_private)
    except ValueError as exc:
        raise SettingsError(f"the URL {exc}") from exc
    made = write(settings, lambda connection, now: create_webhook(connection, checked, event, description, now))
    if as_json:
        print_json(to_builtins(NewWebhookOut.of(made)))
        return
    typer.echo(f"Webhook {made.webhook_id} receives: {', '.join(made.events)}.")
    typer.echo(f"Signing secret, not shown again:\n\n  {made.secret}\n")


@app.command("list", epilog=examples("holdfast webhooks list", "holdfast webhooks list --json"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List the webhooks."""
    settings = settings_from(data)
    found = [] if is_new(settings) else run(settings, lambda database: database.read(list_webhooks))
    if as_json:
        print_json({"data": to_builtins([WebhookOut.of(webhook) for webhook in found])})
    elif found:
        rows = [(w.webhook_id, w.url, ", ".join(w.events), date(w.created_at), date(w.disabled_at)) for w in found]
        print_table(["webhook id", "url", "events", "created", "disabled"], rows, folded="url")
    else:
        typer.echo(f"No webhooks in {shown_url(settings)}.")


@app.command("remove", epilog=examples("holdfast webhooks remove WEBHOOK_ID"))
def remove(webhook_id: WebhookId, data: Data = None, as_json: AsJson = False) -> None:
    """Remove a webhook and its pending deliveries."""
    settings = settings_from(data)
    if is_new(settings) or not run(settings, lambda database: admin.remove(database, webhook_id)):
        _unknown(settings)
    print_either(as_json, {"webhook_id": webhook_id, "removed": True}, f"Removed webhook {webhook_id}.")


@app.command("deliveries", epilog=examples("holdfast webhooks deliveries WEBHOOK_ID --state parked"))
def deliveries(
    webhook_id: WebhookId,
    state: Annotated[
        Literal["waiting", "done", "parked", "dropped"] | None,
        typer.Option(help="waiting, done, parked or dropped.", metavar="STATE"),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of items.", min=1, max=1000, metavar="N")] = 20,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of a webhook, newest first."""
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
        print_json({"data": to_builtins([DeliveryOut.of(delivery) for delivery in page]), "has_more": has_more})
        return
    rows = [(d.delivery_id, d.type, d.state, d.attempts, d.reason, moment(d.created_at)) for d in page]
    print_table(["delivery id", "type", "state", "attempts", "reason", "created (UTC)"], rows, folded="delivery id")


@app.command(
    "replay",
    epilog=examples(
        "holdfast webhooks replay WEBHOOK_ID --since 2027-01-31T12:00:00Z",
        "holdfast webhooks replay WEBHOOK_ID --delivery DELIVERY_ID",
    ),
)
def replay(
    webhook_id: WebhookId,
    since: Annotated[
        str | None,
        typer.Option(help="All deliveries created since: 15m, 2h, 7d or 2026-05-01T10:00:00Z.", metavar="TIME"),
    ] = None,
    delivery: Annotated[str | None, typer.Option(help="A single delivery.", metavar="DELIVERY_ID")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Resend deliveries under their original IDs."""
    if (since is None) is (delivery is None):
        raise SettingsError("give either --since TIME or --delivery DELIVERY_ID")
    settings = settings_from(data)
    replayed = None if is_new(settings) else run(settings, lambda db: _replay(db, webhook_id, since, delivery))
    if replayed is None:
        _unknown(settings)
    print_either(as_json, {"replayed": replayed}, f"{replayed} deliveries scheduled to be resent.")


async def _replay(database: Database, webhook_id: str, since: str | None, delivery_id: str | None) -> int | None:
    if await database.read(lambda c: find_webhook(c, webhook_id)) is None:
        return None
    if delivery_id is None:
        return await admin.replay(database, webhook_id, moment_since(since or "", time.time_ns() // 1_000_000))
    found = await database.read(lambda c: find_delivery(c, delivery_id))
    if found is None or found.webhook_id != webhook_id:
        return 0
    return int(await database.write(lambda c: retry_delivery(c, delivery_id, database.now_ms(c))))


def _unknown(settings: Settings) -> NoReturn:
    fail(f"there is no webhook with this ID in {shown_url(settings)}", "List them with: holdfast webhooks list")
