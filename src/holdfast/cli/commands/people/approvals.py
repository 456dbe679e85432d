"""`holdfast approvals`."""

from typing import Annotated

import typer
from msgspec import to_builtins
from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.cli.ledger import is_new, run, shown_url, write
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import date
from holdfast.http.contract.schemas.approvals import ApprovalOut
from holdfast.ledger.access import approvals as ledger
from holdfast.ledger.access.actions import COMMAND_LINE, Action, begin_action, end_action
from holdfast.ledger.access.approvals import Approval, ApprovalState

app = typer.Typer(
    help="List and reject requests that wait for a second operator.\n\n"
    "To approve, sign in to the console: approving needs a name, and a command line has none.",
    no_args_is_help=True,
    epilog=examples("holdfast approvals list", "holdfast approvals reject apr_0192…"),
)
_SHOWN = 100


@app.command("list", epilog=examples("holdfast approvals list", "holdfast approvals list --all --json"))
def list_all(
    every: Annotated[bool, typer.Option("--all", help="Also show decided and expired requests.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the newest requests that are pending."""
    settings = settings_from(data)
    state = None if every else ApprovalState.PENDING

    def work(connection: Connection, now: int) -> list[Approval]:
        return ledger.list_approvals(connection, now, limit=_SHOWN, state=state)

    found = (
        [] if is_new(settings) else run(settings, lambda database: database.read(lambda c: work(c, database.now_ms(c))))
    )
    if as_json:
        print_json({"data": to_builtins([ApprovalOut.of(one) for one in found])})
    elif found:
        rows = [
            (
                one.approval_id,
                one.asked.action,
                one.asked.subject or "",
                one.requested_by,
                one.state.value,
                date(one.expires_at),
            )
            for one in found
        ]
        print_table(["approval", "action", "subject", "requested by", "state", "expires"], rows, folded="subject")
    else:
        typer.echo(f"Nothing waits for approval in {shown_url(settings)}.")


@app.command("reject", epilog=examples("holdfast approvals reject apr_0192…"))
def reject(
    approval_id: Annotated[str, typer.Argument(help="The ID of the approval.", metavar="APPROVAL")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Reject a request, so that it is not carried out."""
    settings = settings_from(data)

    def work(connection: Connection, now: int) -> bool:
        is_rejected = ledger.reject(connection, approval_id, COMMAND_LINE, now)
        if is_rejected:
            action = Action(f"act_{uuid7().hex}", "reject_request", f"approval:{approval_id}", COMMAND_LINE)
            begin_action(connection, action, None, None, now)
            end_action(connection, action, None, 200, None, now)
        return is_rejected

    if is_new(settings) or not write(settings, work):
        fail(
            f"there is no pending approval {approval_id} in {shown_url(settings)}",
            "List them with: holdfast approvals list",
        )
    print_either(as_json, {"approval_id": approval_id, "state": "rejected"}, f"{approval_id} is rejected.")
