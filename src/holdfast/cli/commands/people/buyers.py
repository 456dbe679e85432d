"""`holdfast buyers`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import typer
from msgspec import to_builtins
from sqlalchemy import Connection

from holdfast.audit.buyer_export import buyer_rows
from holdfast.audit.erasing import erase_refusals, erase_shared
from holdfast.cli.ledger import is_new, run, run_engine, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import date
from holdfast.errors import EngineError
from holdfast.gate.engine import Engine
from holdfast.http.contract.schemas.revocations import RevocationOut
from holdfast.ledger.access.revocations import Revocation, RevocationKind, lift, revocations
from holdfast.ledger.access.revocations import revoke as revoke_in
from holdfast.ledger.engine.database import Database
from holdfast.ledger.erasure.erasing import EraseRefused, Erasure
from holdfast.ledger.erasure.trial import erase_buyer
from holdfast.settings import Settings
from holdfast.streams.clicks.erasing import erase_clicks

app = typer.Typer(
    help="Export, erase or revoke a buyer.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast buyers export ada > ada.json",
        "holdfast buyers erase ada --yes",
        "holdfast buyers revoke ada --reason 'account stolen'",
    ),
)

Buyer = Annotated[str, typer.Argument(help="The buyer ID.", metavar="BUYER")]
IsToken = Annotated[bool, typer.Option("--token", help="The argument is the ID of one token (its `jti`).")]
# The actor on record: anyone who may run commands on this machine.
COMMAND_LINE = "the command line"
LISTED_MAX = 1_000
DAY_MS = 24 * 3_600_000
_HINT = "Check the ID: it is the `sub` of their token."


@app.command("export", epilog=examples("holdfast buyers export ada > ada.json"))
def export(buyer_id: Buyer, data: Data = None, as_json: AsJson = False) -> None:
    """Print everything the ledger has about a buyer as one JSON document."""
    del as_json  # It is JSON in any case.
    settings = settings_from(data)

    async def read(database: Database, engine: Engine) -> dict[str, object]:
        await engine.catch_up(None)
        return dict(await database.read(lambda c: buyer_rows(c, buyer_id)))

    found = {} if is_new(settings) else run_engine(settings, read)
    if not found:
        fail(f"there is nothing about this buyer in {shown_url(settings)}", _HINT)
    print_json({"buyer_id": buyer_id, "data": found})


@app.command("erase", epilog=examples("holdfast buyers erase ada", "holdfast buyers erase ada --yes --json"))
def erase(
    buyer_id: Buyer,
    yes: Annotated[bool, typer.Option("--yes", help="Erase. Without it, only show what would be erased.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Replace a buyer by a random pseudonym, and delete what is not needed for the books.

    Orders, payments, wallets, places in line and the history stay, under the pseudonym; `holdfast verify` and earlier
    checkpoints still hold. Refusals and clicks in the files of this machine are erased too: run it on every machine
    that has some. Refused while the buyer has holds, payments or refunds in progress. It cannot be undone.
    """
    settings = settings_from(data)
    if is_new(settings):
        fail(f"there is nothing about this buyer in {shown_url(settings)}", _HINT)
    try:
        erasure = run_engine(settings, lambda database, engine: _erase(database, engine, buyer_id, trial=not yes))
    except EraseRefused as refused:
        fail(str(refused))
    files = _erase_files(settings, buyer_id, trial=not yes)
    # Last: files that are finished are shared.
    files |= run_engine(settings, lambda database, _: _erase_shared(database, buyer_id, trial=not yes))
    body = {"buyer_id": buyer_id, "erased": yes, "pseudonym": erasure.pseudonym if yes and erasure.replaced else None}
    body |= {"replaced": erasure.replaced, "deleted": erasure.deleted, "files": files}
    print_json(body) if as_json else _print(body)


@app.command(
    "revoke",
    epilog=examples("holdfast buyers revoke ada --reason 'account stolen'", "holdfast buyers revoke JTI --token"),
)
def revoke(
    buyer_id: Buyer,
    is_token: IsToken = False,
    days: Annotated[int, typer.Option(help="For how many days.", min=1, max=3650)] = 30,
    reason: Annotated[str | None, typer.Option(help="Why, for your colleagues.", metavar="TEXT")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Refuse every token of a buyer, or one token, until the revocation expires.

    Servers refuse them within a second. What the buyer holds or ordered stays as it is.
    """
    settings, kind = settings_from(data), RevocationKind.TOKEN if is_token else RevocationKind.BUYER

    def made(connection: Connection, now: int) -> Revocation:
        revocation = Revocation(kind, buyer_id, now, now + days * DAY_MS, reason, COMMAND_LINE)
        revoke_in(connection, revocation)
        return revocation

    found = write(settings, made)
    said = f"The {kind} {buyer_id} is revoked until {date(found.expires_at)}."
    print_either(as_json, to_builtins(RevocationOut.of(found)), said)


@app.command("restore", epilog=examples("holdfast buyers restore ada", "holdfast buyers restore JTI --token"))
def restore(buyer_id: Buyer, is_token: IsToken = False, data: Data = None, as_json: AsJson = False) -> None:
    """Accept the tokens of a revoked buyer, or a revoked token, again."""
    settings, kind = settings_from(data), RevocationKind.TOKEN if is_token else RevocationKind.BUYER
    if is_new(settings) or not write(settings, lambda connection, _: lift(connection, kind, buyer_id)):
        fail(f"this {kind} is not revoked in {shown_url(settings)}", "List them with: holdfast buyers revoked")
    print_either(as_json, {"kind": kind, "id": buyer_id, "revoked": False}, f"The {kind} {buyer_id} is accepted again.")


@app.command("revoked", epilog=examples("holdfast buyers revoked", "holdfast buyers revoked --json"))
def revoked(data: Data = None, as_json: AsJson = False) -> None:
    """List the buyers and tokens that are revoked, newest first."""
    settings = settings_from(data)
    found = [] if is_new(settings) else run(settings, lambda database: database.read(_revoked_in(database)))
    if as_json:
        print_json({"data": to_builtins([RevocationOut.of(one) for one in found])})
    elif found:
        rows = [
            (one.kind, one.id, date(one.revoked_at), date(one.expires_at), one.revoked_by, one.reason or "")
            for one in found
        ]
        print_table(["kind", "id", "revoked", "until", "by", "reason"], rows, folded="reason")
    else:
        typer.echo("No buyer and no token is revoked.")


def _revoked_in(database: Database) -> Callable[[Connection], list[Revocation]]:
    return lambda connection: revocations(connection, database.now_ms(connection), limit=LISTED_MAX)


async def _erase(database: Database, engine: Engine, buyer_id: str, *, trial: bool) -> Erasure:
    await engine.catch_up(None)
    erasure = await erase_buyer(database, buyer_id, trial=trial)
    if not trial and engine.reload_pool is not None:
        await _reload(engine.reload_pool, erasure.pools)
    return erasure


async def _reload(reload_pool: Callable[[str], Awaitable[None]], pools: list[str]) -> None:
    for at, sku_id in enumerate(pools):
        try:
            await reload_pool(sku_id)
        except EngineError as exc:
            fail(
                f"erased from the ledger, but Redis still has the ID in {', '.join(pools[at:])}: {exc}",
                "While nothing is sold, delete the keys of these pools in Redis: they are loaded from the ledger anew.",
            )


async def _erase_shared(database: Database, buyer_id: str, *, trial: bool) -> dict[str, int]:
    run = database.read if trial else database.write
    count = await run(partial(erase_shared, buyer_id=buyer_id, trial=trial))
    return {"shared_refusals": count} if count else {}


def _erase_files(settings: Settings, buyer_id: str, *, trial: bool) -> dict[str, int]:
    found = {"refusals": erase_refusals(settings.audit_directory, buyer_id, trial=trial)}
    if settings.clicks_directory is not None:
        key = settings.signing_key_text().encode()
        found["clicks"] = erase_clicks(settings.clicks_directory, key, buyer_id, trial=trial)
    return {name: count for name, count in found.items() if count}


def _print(body: dict[str, Any]) -> None:
    done = body["erased"]
    if not (body["replaced"] or body["deleted"] or body["files"]):
        typer.echo(f"There is nothing about this buyer. {_HINT}")
        return
    said = f"Replaced by {body['pseudonym']}" if done else "Would be replaced by a pseudonym"
    for name, count in body["replaced"].items():
        typer.echo(f"{said}: {count:,} in {name}")
    for name, count in body["deleted"].items():
        typer.echo(f"{'Deleted' if done else 'Would be deleted'}: {count:,} in {name}")
    for name, count in body["files"].items():
        typer.echo(f"{'Erased' if done else 'Would be erased'} from files: {count:,} {name}")
    if not done:
        typer.echo("Nothing was changed. To erase the buyer permanently, add --yes.")
