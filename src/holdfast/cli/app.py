"""The `holdfast` command."""

import gc
import os
import sys

import typer

from holdfast import __version__
from holdfast.cli.lazy import group_of
from holdfast.cli.output import COLOUR, begin_command, complain, examples
from holdfast.errors import EngineError, HoldfastError

COMMANDS = {
    "demo": "Show a sale with a crowd, to look at and to buy in.",
    "serve": "Serve the API, and do the background work.",
    "worker": "Do the background work alone, beside servers.",
    "pools": "Look at pools and change their stock.",
    "sales": "Make sales, look at them, and change how they go on.",
    "reservations": "Look at reservations.",
    "orders": "Look at orders, and give money back.",
    "parked": "What waits for a person: look, try again, or give up.",
    "keys": "Make, list and revoke service keys; sign buyers' tokens to try.",
    "webhooks": "Who hears of events, and what was sent to them.",
    "migrate": "Bring the database to the tables this version needs.",
    "verify": "Prove from the ledger alone that nothing went wrong.",
    "audit": "Say what happened to a buyer, refusals included.",
    "reconcile": "Check stock and money now, and mend what can be mended.",
    "lottery": "Check the draw of a lottery.",
    "doctor": "Check the set-up, and say how to mend what is wrong.",
    "sandbox": "Run a payment service to practise with, faults included.",
    "rush": "Let a simulated crowd loose on a sale, and check the books.",
    "plan": "Say how a sale will go, and what machines it takes.",
    "bench": "Measure this machine, beside the usual ways of doing it.",
}

_COLLECT_AFTER = 50_000

app = typer.Typer(
    name="holdfast",
    cls=group_of(COMMANDS),
    help="Sell a limited stock to a crowd that arrives all at once: never one unit too many, never one left behind.",
    epilog=examples(
        "holdfast demo                            see a sale, and buy in it",
        "holdfast pools create demo --units 500   make something to sell",
        "holdfast serve                           sell it, on http://127.0.0.1:8000",
        "holdfast doctor                          when something does not work",
        "holdfast COMMAND --help                  more about a command",
    ),
    no_args_is_help=True,
    # Plain text: it is quicker, fits into 80 columns, and can be copied.
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
    # What modules leave behind while they load is not worth looking for, which took a fifth of the time.
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
        complain(f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc), "Find out more with: holdfast doctor")
        sys.exit(1)
    finally:
        _let_go_of_streams()


def _let_go_of_streams() -> None:
    """Python exits with 120 if what is left for a stream nobody reads cannot be written, whatever was done before."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _accept_any_terminal() -> None:
    """A terminal that cannot show a character gets a question mark, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
