"""The `holdfast` command."""

import gc
import os
import sys
from io import TextIOWrapper

import typer

from holdfast import __version__
from holdfast.cli.lazy import group_of
from holdfast.cli.output import COLOUR, begin_command, complain, examples
from holdfast.errors import EngineError, HoldfastError

COMMANDS = {
    "demo": "Run a demo sale with simulated buyers and buy in it.",
    "serve": "Serve the API and run the background tasks.",
    "worker": "Run only the background tasks, next to servers.",
    "pools": "Show pools and change their stock.",
    "sales": "Create, show and control sales.",
    "drops": "Create and show drops: several sales with one waiting room.",
    "cells": "Show which cell each SKU is in, pin one to a cell, or move it.",
    "report": "Write a report of a sale as one HTML page.",
    "reservations": "Show reservations.",
    "orders": "List, export, fulfil and refund orders.",
    "buyers": "Export, erase or revoke a buyer.",
    "parked": "List, retry or drop items that need attention.",
    "keys": "Create, list and revoke service keys; sign test tokens.",
    "operators": "Invite, list and disable the operators of the console.",
    "approvals": "List and reject requests that wait for a second operator.",
    "webhooks": "Manage webhooks and inspect their deliveries.",
    "migrate": "Upgrade the database schema to this version.",
    "backup": "Back up a running server's ledger and keys into one file.",
    "archive": "Archive past months as Parquet files, and delete old rows.",
    "restore": "Restore a backup into an empty directory or database.",
    "verify": "Prove from the ledger that nothing went wrong.",
    "audit": "Show everything that happened to a buyer.",
    "reconcile": "Check stock and payments now and repair what is safe.",
    "lag": "Show how far background work is behind.",
    "recover": "Recover from a ledger that went back in time.",
    "lottery": "Verify the draw of a lottery.",
    "edge": "Put a proxy or a CDN in front of Holdfast.",
    "doctor": "Check the setup and suggest fixes.",
    "sandbox": "Run a test payment provider with injectable faults.",
    "rush": "Load-test a sale with simulated buyers and verify the books.",
    "plan": "Forecast a sale and size the hardware.",
    "bench": "Benchmark this machine against common alternatives.",
    "simulate": "Simulate whole sales with injected faults, to find bugs.",
}

# By name only: nothing outside the lab imports it.
LAB_COMMANDS = frozenset({"demo", "sandbox", "rush", "plan", "bench", "simulate"})
PROOF_COMMANDS = frozenset({"verify", "audit", "report", "lottery"})
PEOPLE_COMMANDS = frozenset({"buyers", "operators", "approvals"})
SELLING_COMMANDS = frozenset({"sales", "drops"})

_COLLECT_AFTER = 50_000


def _package_of(command: str) -> str:
    if command in LAB_COMMANDS:
        return "holdfast.lab.commands"
    if command in PEOPLE_COMMANDS:
        return "holdfast.cli.commands.people"
    if command in SELLING_COMMANDS:
        return "holdfast.cli.commands.selling"
    return "holdfast.cli.commands.proof" if command in PROOF_COMMANDS else "holdfast.cli.commands"


app = typer.Typer(
    name="holdfast",
    cls=group_of(COMMANDS, _package_of),
    help="Sell limited stock to a crowd that arrives all at once, without overselling or stranding a unit.",
    epilog=examples(
        "holdfast demo                            run a demo sale and buy in it",
        "holdfast pools create demo --units 500   create something to sell",
        "holdfast serve                           sell it, on http://127.0.0.1:8000",
        "holdfast doctor                          diagnose problems",
        "holdfast COMMAND --help                  help for a command",
    ),
    no_args_is_help=True,
    # Plain text is faster, fits into 80 columns and can be copied.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "color": COLOUR},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    del version


def main() -> None:
    """Exit status: 0 good, 1 a finding or failure, 2 wrong use."""
    # Collecting garbage while modules load took a fifth of the start-up time and frees almost nothing.
    gc.set_threshold(_COLLECT_AFTER)
    _accept_any_terminal()
    begin_command()
    if any("\udc80" <= character <= "\udcff" for argument in sys.argv for character in argument):
        complain("an argument is not valid UTF-8")
        sys.exit(2)
    try:
        app(prog_name="holdfast")
    except EngineError as exc:
        complain(str(exc))
        sys.exit(1)
    except HoldfastError as exc:
        complain(str(exc))
        sys.exit(2)
    except OSError as exc:
        complain(f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc), "To diagnose: holdfast doctor")
        sys.exit(1)
    finally:
        _close_streams()


def _close_streams() -> None:
    """Python exits with 120 if buffered output cannot be flushed to a closed pipe, even after success."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _accept_any_terminal() -> None:
    """A terminal that cannot encode a character prints a question mark instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
