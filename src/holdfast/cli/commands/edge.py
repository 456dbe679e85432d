"""`holdfast edge`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from holdfast.caches.purging import Purger, directories_from
from holdfast.caches.warming import warm as warm_sale
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_either, print_json, print_table, warn
from holdfast.edge.nginx_config import (
    BUYING_RATE_PER_SECOND,
    LOOPBACK,
    RATE_PER_SECOND,
    SCRIPT,
    TEMPLATES,
    EdgeOptions,
    nginx_config,
    read_networks,
)
from holdfast.errors import SettingsError
from holdfast.room.tokens import edge_keys
from holdfast.runtime.signing import parse_signing_keys

app = typer.Typer(
    help="Put a proxy or a CDN in front of Holdfast.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast edge nginx --listen 0.0.0.0:80 --upstream 127.0.0.1:8000 --dir edge",
        "nginx -c $PWD/edge/nginx.conf",
    ),
)

CONFIG = "nginx.conf"


@app.command(
    epilog=examples(
        "holdfast edge nginx --listen 0.0.0.0:80 --upstream api:8000 > edge.conf",
        "holdfast edge nginx --listen 0.0.0.0:80 --upstream a:8000,b:8000 --dir edge",
    )
)
def nginx(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where nginx listens.")],
    upstream: Annotated[str, typer.Option(metavar="HOST:PORT[,…]", help="The Holdfast servers, separated by commas.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Write nginx.conf and edge.js there. Default: the configuration on stdout."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where nginx keeps cache, log and PID.  [default: /var/cache/holdfast-edge]"),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, help="Requests per second per address.")] = RATE_PER_SECOND,
    buying_rate: Annotated[
        int, typer.Option(min=1, help="Joins and purchases per second per address.")
    ] = BUYING_RATE_PER_SECOND,
    exempt: Annotated[
        list[str] | None, typer.Option(metavar="NETWORK", help="A network without limits; may be repeated.")
    ] = None,
    blocked: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A file of networks, one in each line, that get 429 whatever they ask.",
        ),
    ] = None,
    limit_loopback: Annotated[bool, typer.Option(help="Apply the limits to loopback clients as well.")] = False,
    data: Data = None,
) -> None:
    """Print an nginx configuration that caches, verifies passes and absorbs a crowd."""
    settings = settings_from(data)
    keys = edge_keys(parse_signing_keys(settings.signing_key_text()))
    state = _state_directory(state)
    config = nginx_config(
        EdgeOptions(
            listen=listen,
            upstreams=tuple(part.strip() for part in upstream.split(",")),
            keys=keys,
            state=state,
            script_directory=TEMPLATES if directory is None else directory.resolve(),
            rate_per_second=rate,
            buying_rate_per_second=buying_rate,
            exempt=(*(exempt or ()), *(() if limit_loopback else LOOPBACK)),
            blocked=() if blocked is None else read_networks(blocked),
            origins=settings.origins,
        )
    )
    _make_state(state)
    if directory is None:
        warn("it contains secrets that passes are checked with: keep it readable by its owner only")
        typer.echo(config, nl=False)
        return
    _write(directory, config)
    typer.echo(
        f"Wrote {directory / CONFIG} and {directory / SCRIPT}. Start it: nginx -c {directory.resolve() / CONFIG}"
    )


@app.command(epilog=examples("holdfast edge purge drop-1 --cache /var/cache/holdfast-edge"))
def purge(
    sale_id: Annotated[str, typer.Argument(metavar="SALE", help="The sale whose cached responses are removed.")],
    cache: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A cache directory of nginx here; may be repeated.")
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The CDN's purge URL; `{tag}` is replaced by the cache tag.")
    ] = "",
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Remove a sale's answers from the caches, as named here or in the settings."""
    settings = settings_from(data)
    token = settings.edge_purge_token.get_secret_value()
    purger = Purger(cache or directories_from(settings.edge_cache_directories), url or settings.edge_purge_url, token)
    if not purger.is_needed:
        raise SettingsError("name a cache: --cache DIR, --url URL, or the settings HOLDFAST_EDGE_…")
    purged = asyncio.run(purger.purge(sale_id))
    shown = {"sale_id": sale_id, "ok": purged.is_complete, "files": purged.files, "cdn_status": purged.cdn_status}
    cdn = "" if purged.cdn_status is None else f" The CDN answered {purged.cdn_status or 'nothing'}."
    print_either(as_json, shown, f"Removed {purged.files} files from nginx's cache.{cdn}")
    raise typer.Exit(0 if purged.is_complete else 1)


@app.command(epilog=examples("holdfast edge warm drop-1 --url https://shop.example.com"))
def warm(
    sale_id: Annotated[str, typer.Argument(metavar="SALE", help="The sale.")],
    url: Annotated[str, typer.Option(metavar="URL", help="Where buyers reach it.  [env var: HOLDFAST_EDGE_URL]")] = "",
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Fetch a sale's page, files, pictures, facts and `now` through the cache, and say what it keeps."""
    address = url or settings_from(data).edge_url
    if not address.startswith(("http://", "https://")):
        raise SettingsError("--url must be the address of the cache, such as https://shop.example.com")
    warmed = asyncio.run(warm_sale(address, sale_id))
    is_warm = all(one.is_warm for one in warmed)
    if as_json:
        items = [{"path": w.path, "status": w.status, "first": w.first, "then": w.then} for w in warmed]
        print_json({"sale_id": sale_id, "ok": is_warm, "items": items})
    else:
        rows = [(w.path, w.status or "no answer", w.first or "-", w.then or "-") for w in warmed]
        print_table(("path", "status", "first", "then"), rows)
    raise typer.Exit(0 if is_warm else 1)


def _state_directory(given: Path | None) -> Path:
    if given is not None:
        return given.resolve()
    return Path("/var/cache/holdfast-edge") if os.geteuid() == 0 else Path.home() / ".cache" / "holdfast-edge"


def _make_state(state: Path) -> None:
    """nginx makes the directories inside, but not this one."""
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SettingsError(f"{state} cannot be made ({exc.strerror}); choose another with --state") from exc


def _write(directory: Path, config: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SCRIPT).write_text((TEMPLATES / SCRIPT).read_text())
    # A new file takes the old one's place at once, and nobody else may read it at any time.
    draft = directory / f".{CONFIG}.new"
    draft.unlink(missing_ok=True)
    draft.touch(0o600)
    draft.write_text(config)
    draft.replace(directory / CONFIG)
