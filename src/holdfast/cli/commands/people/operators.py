"""`holdfast operators`."""

import re
from typing import Annotated

import typer
from msgspec import to_builtins
from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import date
from holdfast.errors import SettingsError
from holdfast.http.contract.schemas.team import InvitedOut, OperatorOut
from holdfast.http.contract.schemas.values import EMAIL
from holdfast.ledger.access import operators as ledger
from holdfast.ledger.access.actions import COMMAND_LINE, Action, begin_action, end_action, read_state
from holdfast.ledger.access.operators import Operator, Role

app = typer.Typer(
    help="Invite, list and disable the operators of the console.\n\n"
    "Each operator signs in with a name of their own, and may do what their role says: viewer, support, seller, "
    "finance or admin.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast operators invite ada@example.com --name Ada --role seller",
        "holdfast operators list",
        "holdfast operators disable ada@example.com",
    ),
)

# Who acts where there is no name: somebody with access to the server's settings.


def _email(text: str) -> str:
    if not re.match(EMAIL, text):
        raise SettingsError(f"{text!r} is not an email address")
    return text.lower()


@app.command("invite", epilog=examples("holdfast operators invite ada@example.com --name Ada --role seller"))
def invite(
    email: Annotated[str, typer.Argument(help="Their email address.", metavar="EMAIL", callback=_email)],
    name: Annotated[str, typer.Option(help="Their name, as other operators see it.", metavar="NAME")],
    role: Annotated[Role, typer.Option(help=f"One of {', '.join(Role)}.", metavar="ROLE")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Invite an operator, or invite a known one again: to change the role, or to set a new password."""
    settings = settings_from(data)

    def work(connection: Connection, now: int) -> tuple[Operator, str]:
        invited = ledger.invite(connection, email, name, role, now, COMMAND_LINE.name)
        _record(connection, "invite_operator", invited[0].operator_id, now)
        return invited

    operator, token = write(settings, work)
    link = f"{settings.console_url}/console#/join/{token}"
    if as_json:
        print_json(to_builtins(InvitedOut.of_new(operator, link)))
        return
    typer.echo(f"{operator.name} <{operator.email}> is invited as {operator.role}.")
    where = "" if settings.console_url else ", on your server"
    typer.echo(f"Send them this link. It works once, for 7 days{where}:\n\n  {link}\n")


@app.command("list", epilog=examples("holdfast operators list", "holdfast operators list --json"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all operators, including disabled ones."""
    settings = settings_from(data)
    found = [] if is_new(settings) else run(settings, lambda database: database.read(ledger.list_operators))
    if as_json:
        print_json({"data": to_builtins([OperatorOut.of(one) for one in found])})
    elif found:
        rows = [(o.email, o.name, o.role.value, date(o.joined_at), date(o.disabled_at)) for o in found]
        print_table(["email", "name", "role", "joined", "disabled"], rows, folded="name")
    else:
        typer.echo(f"No operators in {shown_url(settings)} yet; the console is open to service keys only.")
        typer.echo("Invite one with: holdfast operators invite EMAIL --name NAME --role ROLE")


@app.command("disable", epilog=examples("holdfast operators disable ada@example.com"))
def disable(
    email: Annotated[str, typer.Argument(help="Their email address.", metavar="EMAIL", callback=_email)],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """End an operator's sessions, revoke the keys they made, and let them sign in no more."""
    settings = settings_from(data)

    def work(connection: Connection, now: int) -> Operator | None:
        known = ledger.find_by_email(connection, email)
        if known is None:
            return None
        disabled = ledger.disable(connection, known.operator_id, now)
        _record(connection, "disable_operator", known.operator_id, now)
        return disabled

    operator = None if is_new(settings) else write(settings, work)
    if operator is None:
        fail(f"there is no operator {email} in {shown_url(settings)}", "List them with: holdfast operators list")
    body = {"operator_id": operator.operator_id, "disabled": True}
    print_either(as_json, body, f"{operator.name} <{operator.email}> is disabled.")


def _record(connection: Connection, what: str, operator_id: str, now: int) -> None:
    subjects = {"operator_id": operator_id}
    action = Action(f"act_{uuid7().hex}", what, f"operator:{operator_id}", COMMAND_LINE)
    begin_action(connection, action, None, None, now)
    end_action(connection, action, read_state(connection, subjects), 200, None, now)
