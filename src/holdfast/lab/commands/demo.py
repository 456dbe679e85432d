"""`holdfast demo`."""

import asyncio
import socket
import subprocess
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from holdfast.cli.ledger import explained
from holdfast.cli.options import Data
from holdfast.cli.output import examples, warn
from holdfast.errors import SettingsError
from holdfast.http.server.address import check_port, url_of
from holdfast.lab.demo.buyers import Call
from holdfast.lab.demo.setup import OPENS_IN_S, Drop, claimed_directory, prepare
from holdfast.lab.load.processes import clean_environment, python, running
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings, load_settings

app = typer.Typer()

# Loopback only, because every visitor gets a buyer account and play money.
HOST = "127.0.0.1"
# Part of the 10 s shutdown budget, most of which the server needs.
END_S = 2.0
# It may have to stop the servers and stores of a run.
SIMULATION_END_S = 8.0
NEXT_PORTS = 50
LISTENS_S, LOOK_S = 15.0, 0.1
# A fixed seed makes every demo the same.
SEED = 1


@app.command(
    "demo",
    epilog=examples(
        "holdfast demo --open", "holdfast demo --units 500 --buyers 5000", "holdfast demo --no-crowd --port 8001"
    ),
)
def demo(
    units: Annotated[int, typer.Option(help="Units to sell.", min=1, max=100_000, metavar="N")] = 100,
    buyers: Annotated[int, typer.Option(help="Simulated buyers.", min=1, max=100_000, metavar="N")] = 220,
    seconds: Annotated[float, typer.Option(help="Seconds over which they arrive.", min=1, max=3_600, metavar="N")] = 75,
    crowd: Annotated[bool, typer.Option("--crowd/--no-crowd", help="Run simulated buyers.")] = True,
    simulation: Annotated[
        bool, typer.Option("--simulation/--no-simulation", help="Serve the simulation page, on the next free port.")
    ] = True,
    open_page: Annotated[bool, typer.Option("--open", help="Open the storefront in your browser.")] = False,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535, metavar="PORT")] = 8000,
    data: Data = None,
) -> None:
    """Run a demo sale with simulated buyers and buy in it.

    A drop opens in 20 seconds. Each browser is a separate buyer, who pays with test cards: one works, others are
    declined, ask the bank, are slow or lose the reply. The server listens on loopback only.
    The simulation page beside it runs sales on a real server, lets you cause faults, and shows what simpler shops sell.
    Run it again for a new drop; Ctrl-C stops it.
    """
    from holdfast.http.server import serving  # noqa: PLC0415 - keeps `demo --help` fast

    url, page_port = url_of(HOST, port), _next_port(port) if simulation else 0
    simulation_url = f"{url_of(HOST, page_port)}/simulation" if page_port else ""
    settings, cards_port = _settings(data, simulation_url)
    set_up_logging("error")
    with explained(settings), claimed_directory(settings):
        check_port(HOST, port)
        drop = asyncio.run(prepare(settings, units))
        secret = settings.buyer_secret_text()
        call = Call(
            url, drop.sale_id, buyers, seconds, SEED, secret, settings.service_key_text(), settings.buyer_claims
        )
        greet = partial(_greet, settings, url, drop, open_page)
        with (
            _test_cards(settings, cards_port),
            _simulation(settings, page_port, url),
            _crowd(settings, call if crowd else None),
        ):
            serving.serve(settings, HOST, port, greet, workers=1, background=True)


def _settings(data: object, simulation_url: str) -> tuple[Settings, int]:
    """Returns the settings, and the port of the payment sandbox to start: 0 if one is configured already."""
    from holdfast.lab.load.engines import free_port  # noqa: PLC0415 - keeps `demo --help` fast

    # Info logs would drown the URLs.
    given = partial(load_settings, data=data, demo=True, demo_simulation_url=simulation_url, log_level="warning")
    settings, cards_port = given(), 0
    if not settings.payment_sandbox_url:
        cards_port = free_port()
        settings = given(payment_sandbox_url=url_of(HOST, cards_port))
    if settings.buyer_jwks_url:
        raise SettingsError("the demo signs its visitors' tokens: unset HOLDFAST_BUYER_JWKS_URL")
    if settings.has_redis:
        raise SettingsError("the demo uses its own SQLite file: unset HOLDFAST_REDIS_URL")
    return settings, cards_port


def _next_port(port: int) -> int:
    for candidate in range(port + 1, min(port + NEXT_PORTS, 65_536)):
        with suppress(SettingsError):
            check_port(HOST, candidate)
            return candidate
    raise SettingsError(f"no port after {port} is free for the simulation page: start the demo with --no-simulation")


@contextmanager
def _test_cards(settings: Settings, port: int) -> Iterator[None]:
    """Starts a payment sandbox. Its records are kept, because the next demo in this directory looks payments up."""
    if not port:
        yield
        return
    data = settings.data.absolute()
    command = python("holdfast", "sandbox", "--port", str(port), "--data", str(data / "demo-payments.db"))
    with running("demo-payments", command, data, clean_environment()):
        yield


@contextmanager
def _crowd(settings: Settings, call: Call | None) -> Iterator[None]:
    """Starts the simulated buyers, which wait for the server. Secrets are passed on stdin, where no other user can read
    them."""
    if call is None:
        yield
        return
    task = msgspec.json.encode(call) + b"\n"
    with _companion(python("holdfast.lab.demo.buyers"), settings.data / "demo-crowd.log", END_S, task):
        yield


@contextmanager
def _simulation(settings: Settings, port: int, demo_url: str) -> Iterator[None]:
    if not port:
        yield
        return
    command = python("holdfast.lab.simulation", "--port", str(port), "--demo-url", demo_url)
    with _companion(command, settings.data / "demo-simulation.log", SIMULATION_END_S):
        yield


@contextmanager
def _companion(command: list[str], log_file: Path, end_s: float, task: bytes = b"") -> Iterator[None]:
    """Runs a separate process that exits when its stdin closes, so also when this process dies."""
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=clean_environment())
    assert process.stdin is not None
    process.stdin.write(task)
    process.stdin.flush()
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(end_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _greet(settings: Settings, url: str, drop: Drop, open_page: bool, _sku_id: str | None) -> None:
    given = settings.service_key.get_secret_value()
    key = "the key in HOLDFAST_SERVICE_KEY" if given else f"the key in {settings.data / 'service_key'}"
    lines = [
        "",
        f"  Storefront   {url}/s/{drop.sale_id}",
        f"  Console      {url}/console   (sign in with {key})",
        f"  API          {url}/docs",
        *([f"  Simulation   {settings.demo_simulation_url}"] if settings.demo_simulation_url else []),
        "",
        f"  {drop.units} units; the sale opens in {OPENS_IN_S - 2} seconds. Ctrl-C stops it.",
        "",
    ]
    typer.echo("\n".join(lines), err=True)
    if open_page:
        Thread(target=_open, args=(url, f"{url}/s/{drop.sale_id}"), daemon=True).start()


def _open(server: str, page: str) -> None:
    """Runs in a thread, because the server starts listening only after its greeting."""
    address = urlsplit(server)
    assert address.hostname is not None
    assert address.port is not None
    give_up_at = monotonic() + LISTENS_S
    while not _listens(address.hostname, address.port) and monotonic() < give_up_at:
        sleep(LOOK_S)
    if not webbrowser.open(page):
        warn(f"no browser could be started here; open {page} yourself")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), LOOK_S).close()
    except OSError:
        return False
    return True
