"""`holdfast keys`."""

import re
import time
from typing import Annotated

import typer
from msgspec import to_builtins

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import date
from holdfast.errors import SettingsError
from holdfast.http.contract.schemas.operate import NewServiceKeyOut, ServiceKeyOut
from holdfast.ledger.access.keys import Scope, create_key, list_keys, revoke_key

app = typer.Typer(
    help="Create, list and revoke service keys; sign test tokens.\n\n"
    "The admin key (HOLDFAST_SERVICE_KEY, or service_key in the data directory) has every scope; these have only the "
    "scopes you give them.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast keys create --name checkout --scope inventory",
        "holdfast keys list",
        "holdfast keys revoke KEY_ID",
        "holdfast keys token ada",
    ),
)

# Fits into a table.
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
    name: Annotated[str, typer.Option(help="What the key is for.", metavar="NAME", callback=_name)],
    scope: Annotated[
        list[Scope],
        typer.Option(help=f"One of {', '.join(Scope)}; repeat for several.", metavar="SCOPE"),
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a service key. It is shown once; only its hash is stored."""
    settings = settings_from(data)
    key, text = write(settings, lambda connection, now: create_key(connection, name, frozenset(scope), now))
    if as_json:
        print_json(to_builtins(NewServiceKeyOut.of_new(key, text)))
        return
    typer.echo(f"Key {key.key_id} ({name}), scopes: {', '.join(sorted(key.scopes))}.")
    typer.echo(f"Store it safely, it is not shown again:\n\n  {text}\n")


@app.command(
    "token",
    epilog=examples("holdfast keys token ada", "holdfast keys token ada --tier 2 --minutes 10"),
)
def token(
    buyer_id: Annotated[str, typer.Argument(help="The buyer ID.", metavar="BUYER")],
    tier: Annotated[int, typer.Option(help="The buyer's tier, for sales with required_tier.", min=0)] = 0,
    minutes: Annotated[int, typer.Option(help="Lifetime in minutes.", min=1, max=60 * 24 * 30)] = 60,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sign a buyer token for testing. In production your auth service signs it with the same secret."""
    settings = settings_from(data)
    if settings.buyer_jwks_url:
        raise SettingsError(
            "buyer tokens are verified with published keys (HOLDFAST_BUYER_JWKS_URL): only your auth service can sign"
        )
    from joserfc import jwt  # noqa: PLC0415 - slow to import
    from joserfc.jwk import OctKey  # noqa: PLC0415 - slow to import

    claims = {"sub": buyer_id, "tier": tier, "exp": int(time.time()) + 60 * minutes, **settings.buyer_claims}
    signed = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(settings.buyer_secret_text()))
    print_either(as_json, {"token": signed}, signed)


@app.command("list", epilog=examples("holdfast keys list", "holdfast keys list --json"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all service keys, including revoked ones."""
    settings = settings_from(data)
    keys = [] if is_new(settings) else run(settings, lambda database: database.read(list_keys))
    if as_json:
        print_json({"data": to_builtins([ServiceKeyOut.of(key) for key in keys])})
    elif keys:
        rows = [(k.key_id, k.name, ", ".join(sorted(k.scopes)), date(k.created_at), date(k.revoked_at)) for k in keys]
        print_table(["key id", "name", "scopes", "created", "revoked"], rows, folded="name")
    else:
        typer.echo(f"No keys in {shown_url(settings)} yet; only the admin key works.")
        typer.echo("Create one with: holdfast keys create --name checkout --scope inventory")


def _key_id(text: str) -> str:
    """The key ID, also from a whole key. Anything else may be a secret and is not echoed."""
    whole = re.match(r"hf_([0-9a-f]{12})_", text)
    if text.startswith("hf_") and whole is None:
        raise SettingsError(
            "this key was not created by `holdfast keys create`. To replace the admin key, change HOLDFAST_SERVICE_KEY "
            "or remove service_key from the data directory, then restart"
        )
    return text if whole is None else whole[1]


@app.command("revoke", epilog=examples("holdfast keys revoke KEY_ID"))
def revoke(
    key_id: Annotated[
        str,
        typer.Argument(
            help="As shown by holdfast keys list; a whole key works too.", metavar="KEY_ID", callback=_key_id
        ),
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a service key and the keys made by it. Servers refuse them from the next request on."""
    settings = settings_from(data)
    if is_new(settings) or not write(settings, lambda connection, now: revoke_key(connection, key_id, now)):
        fail(f"there is no key with this ID in {shown_url(settings)}", "List them with: holdfast keys list")
    print_either(as_json, {"key_id": key_id, "revoked": True}, f"Key {key_id} is revoked.")
