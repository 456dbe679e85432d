"""`holdfast sandbox`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import examples
from holdfast.errors import SettingsError
from holdfast.http.server.address import resolve, url_of
from holdfast.settings import load_settings

app = typer.Typer()


@app.command(
    "sandbox",
    epilog=examples(
        "holdfast sandbox",
        "HOLDFAST_PAYMENT_SANDBOX_URL=http://127.0.0.1:8081 holdfast serve",
        "holdfast sandbox --data payments.db",
        "curl -X PUT http://127.0.0.1:8081/faults \\",
        '  -d \'{"seed": 7, "decline": 0.1, "lost_reply": 0.05}\'',
    ),
)
def sandbox(
    host: Annotated[str, typer.Option(help="Host name or address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535, metavar="PORT")] = 8081,
    data: Annotated[
        Path | None, typer.Option(help="SQLite file for its records; default: in memory.", metavar="FILE")
    ] = None,
    webhook_url: Annotated[
        str,
        typer.Option(
            help="URL to post payment changes to, signed with HOLDFAST_PAYMENT_SANDBOX_WEBHOOK_SECRET.",
            metavar="URL",
        ),
    ] = "",
) -> None:
    """Run a test payment provider with injectable faults.

    No money moves. It authorises, captures, voids and refunds, once per key, and publishes its records at /books. A
    charge with the method pm_decline, pm_pending, pm_slow, pm_error or pm_lost_reply triggers that fault; PUT /faults
    injects faults into a share of all requests.
    """
    from holdfast.lab.sandbox.server import SandboxOptions, serve_sandbox  # noqa: PLC0415 - keeps --help fast

    secret = load_settings().payment_sandbox_webhook_secret.get_secret_value()
    if webhook_url and not secret:
        raise SettingsError("--webhook-url needs a secret: set HOLDFAST_PAYMENT_SANDBOX_WEBHOOK_SECRET=whsec_…")
    address = resolve(host, port)
    options = SandboxOptions(data, webhook_url, secret)
    serve_sandbox(options, address, port, partial(_greet, url_of(address, port), data))


def _greet(where: str, data: Path | None) -> None:
    lines = [
        f"Payment sandbox on {where}",
        f"Records:   {where}/books ({'in memory' if data is None else data})",
        f"Use it:    HOLDFAST_PAYMENT_SANDBOX_URL={where} holdfast serve",
    ]
    typer.echo("\n".join(lines), err=True)
