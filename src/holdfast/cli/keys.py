"""`holdfast keys`."""

import re
import time
from typing import Annotated

import typer

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table
from holdfast.cli.times import date
from holdfast.errors import SettingsError
from holdfast.http.console_schemas import key_body
from holdfast.ledger.keys import Scope, create_key, list_keys, revoke_key

app = typer.Typer(
    help="Make, list and revoke service keys; sign buyers' tokens to try.\n\n"
    "The key in HOLDFAST_SERVICE_KEY, or in the data directory, may do everything; these may do what you say.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast keys create --name checkout --scope inventory",
        "holdfast keys list",
        "holdfast keys revoke KEY_ID",
        "holdfast keys token ada",
    ),
)

# Long enough to say what a key is for, short enough for a table.
MAX_NAME = 100


def _name(text: str) -> str:
    if not text.strip() or len(text) > MAX_NAME or not text.isprintable():
        raise SettingsError(f"--name must be 1 to {MAX_NAME} printable characters, such as: --name checkout")
    return text.strip()


@app.command(
    "create",
    epilog=examples(
        "holdfast keys create --name checkout --scope inventory",
        "holdfast keys create --name console --scope sales --scope operate",
    ),
)
def create(
    name: Annotated[
        str, typer.Option(help="What the key is for, so that you know it again.", metavar="NAME", callback=_name)
    ],
    scope: Annotated[
        list[Scope],
        typer.Option(
            help=f"What it may do: {', '.join(Scope)}. Give it several times for several scopes.", metavar="SCOPE"
        ),
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a service key. It is shown once; only a hash of it is kept."""
    settings = settings_from(data)
    key, text = write(settings, lambda connection, now: create_key(connection, name, frozenset(scope), now))
    if as_json:
        print_json(key_body(key) | {"key": text})
        return
    typer.echo(f"Key {key.key_id}, named {name}, may use: {', '.join(sorted(key.scopes))}.")
    typer.echo(f"Keep it safe, it is not shown again:\n\n  {text}\n")


@app.command(
    "token",
    epilog=examples("holdfast keys token ada", "holdfast keys token ada --tier 2 --minutes 10"),
)
def token(
    buyer_id: Annotated[str, typer.Argument(help="Who buys, as your login knows them.", metavar="BUYER")],
    tier: Annotated[int, typer.Option(help="What a sale may ask for with required_tier.", min=0)] = 0,
    minutes: Annotated[int, typer.Option(help="How long it is good for.", min=1, max=60 * 24 * 30)] = 60,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sign a buyer's token, to try things with. In earnest your login does this, with the same secret."""
    settings = settings_from(data)
    if settings.buyer_jwks_url:
        raise SettingsError("buyers' tokens are verified with published keys here, so only their owner can sign one")
    from joserfc import jwt  # noqa: PLC0415 - takes longer to load than the other commands take to run
    from joserfc.jwk import OctKey  # noqa: PLC0415 - see above

    claims = {"sub": buyer_id, "tier": tier, "exp": int(time.time()) + 60 * minutes}
    signed = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(settings.buyer_secret_text()))
    if as_json:
        print_json({"token": signed})
    else:
        typer.echo(signed)


@app.command("list")
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List the service keys, revoked ones included."""
    settings = settings_from(data)
    keys = [] if is_new(settings) else run(settings, lambda database: database.read(list_keys))
    if as_json:
        print_json({"data": [key_body(key) for key in keys]})
    elif keys:
        rows = [(k.key_id, k.name, ", ".join(sorted(k.scopes)), date(k.created_at), date(k.revoked_at)) for k in keys]
        print_table(["key id", "name", "scopes", "created", "revoked"], rows, folded="name")
    else:
        typer.echo(f"There is no key in {shown_url(settings)}; only the one with every scope works.")
        typer.echo("Make one with: holdfast keys create --name checkout --scope inventory")


def _key_id(text: str) -> str:
    """The id, also of a whole key. What is neither may be a secret, and is not repeated."""
    whole = re.match(r"hf_([0-9a-f]{12})_", text)
    if text.startswith("hf_") and whole is None:
        raise SettingsError(
            "this is not a key made by `holdfast keys create`. The key with every scope is replaced by another in "
            "HOLDFAST_SERVICE_KEY, or by removing service_key from the data directory, and a restart"
        )
    return text if whole is None else whole[1]


@app.command("revoke")
def revoke(
    key_id: Annotated[
        str,
        typer.Argument(
            help="As shown by: holdfast keys list. A whole key will do.", metavar="KEY_ID", callback=_key_id
        ),
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a service key. Servers stop accepting it within 5 seconds."""
    settings = settings_from(data)
    if is_new(settings) or not write(settings, lambda connection, now: revoke_key(connection, key_id, now)):
        complain(f"there is no key by this id in {shown_url(settings)}", "List them with: holdfast keys list")
        raise typer.Exit(1)
    if as_json:
        print_json({"key_id": key_id, "revoked": True})
    else:
        typer.echo(f"Key {key_id} is revoked.")
