"""`holdfast demo`."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated

import msgspec
import typer

from holdfast.bench.processes import clean_environment, python
from holdfast.cli.ledger import explained
from holdfast.cli.options import Data
from holdfast.cli.output import examples
from holdfast.demo.crowd import Call
from holdfast.demo.stage import OPENS_IN_S, Drop, claim_directory, prepare
from holdfast.errors import SettingsError
from holdfast.http.address import url_of
from holdfast.log import set_up_logging
from holdfast.settings import Settings, load_settings

app = typer.Typer()

# Nobody else may come in: whoever asks is given a buyer and money.
HOST = "127.0.0.1"
# Within the 10 s that a stop may take, most of which belong to the server.
END_S = 2.0
# The same crowd each time.
SEED = 1


@app.command(
    "demo",
    epilog=examples("holdfast demo", "holdfast demo --units 500 --buyers 5000", "holdfast demo --no-crowd --port 8001"),
)
def demo(
    units: Annotated[int, typer.Option(help="How many there are to buy.", min=1, max=100_000, metavar="N")] = 100,
    buyers: Annotated[int, typer.Option(help="How many others want one.", min=1, max=100_000, metavar="N")] = 220,
    seconds: Annotated[float, typer.Option(help="Over how long they come.", min=1, max=3_600, metavar="N")] = 75,
    crowd: Annotated[bool, typer.Option("--crowd/--no-crowd", help="Whether others come at all.")] = True,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535, metavar="PORT")] = 8000,
    data: Data = None,
) -> None:
    """Show a sale with a crowd, to look at and to buy in.

    A drop opens in 20 seconds. Each browser is a buyer of its own, with play money. Everything is on this machine and
    answers to it alone; run it again for a new drop. Ctrl-C ends it.
    """
    from holdfast.http import server  # noqa: PLC0415 - `demo --help` need not wait for the web server

    settings = _settings(data)
    claim_directory(settings)
    set_up_logging("error")
    with explained(settings):
        server.check_port(HOST, port)
        drop = asyncio.run(prepare(settings, units))
        url, secret = url_of(HOST, port), settings.buyer_secret_text()
        call = Call(url, drop.sale_id, buyers, seconds, SEED, secret, settings.service_key_text())
        greet = partial(_greet, settings, url, drop)
        with _crowd(settings, call if crowd else None):
            server.serve(settings, HOST, port, greet, workers=1, background=True)


def _settings(data: object) -> Settings:
    # What it logs is for people who run servers; here it would bury the two addresses.
    settings = load_settings(data=data, demo=True, log_level="warning")
    if settings.buyer_jwks_url:
        raise SettingsError("the demo signs its visitors' tokens itself: unset HOLDFAST_BUYER_JWKS_URL")
    if settings.has_redis:
        raise SettingsError("the demo runs on a SQLite file of its own: unset HOLDFAST_REDIS_URL")
    return settings


@contextmanager
def _crowd(settings: Settings, call: Call | None) -> Iterator[None]:
    """A process of its own, which waits for the server. It is told secrets where nobody else can read them."""
    if call is None:
        yield
        return
    with (settings.data / "demo-crowd.log").open("wb") as log:
        process = subprocess.Popen(
            python("holdfast.demo.crowd"), stdin=subprocess.PIPE, stdout=log, stderr=log, env=clean_environment()
        )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(call) + b"\n")
    process.stdin.flush()
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _greet(settings: Settings, url: str, drop: Drop, _sku_id: str | None) -> None:
    given = settings.service_key.get_secret_value()
    key = "the key in HOLDFAST_SERVICE_KEY" if given else f"the key in {settings.data / 'service_key'}"
    lines = [
        "",
        f"  Buy one      {url}/s/{drop.sale_id}",
        f"  Watch it     {url}/console   (sign in with {key})",
        f"  The API      {url}/docs",
        "",
        f"  {drop.units} to sell, and it opens in {OPENS_IN_S - 2} seconds. Ctrl-C ends it.",
        "",
    ]
    typer.echo("\n".join(lines), err=True)
