"""Commands that work on the ledger wait for a second operator as requests do, where approvals are on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from msgspec import json
from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.cli.ledger import is_new, write
from holdfast.cli.output import fail
from holdfast.ledger.access.actions import COMMAND_LINE, Action, begin_action, end_action
from holdfast.ledger.access.approvals import Asked
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.http.contract.endpoint import Endpoint
    from holdfast.ledger.access.approvals import Approval

_DONE, _CONFLICT = 200, 409


@contextmanager
def approved(
    settings: Settings, operation: str, subject_id: str, body: object = None, key: str | None = None
) -> Iterator[None]:
    """End the command with 1, and how to go on, if the operation waits for a second operator.

    Where approvals are on, the attempt and its outcome are recorded as by the command line: refunds are counted so.
    """
    if not settings.approvals or is_new(settings):
        yield
        return
    asked = _asked(operation, subject_id, body, key)
    action = Action(f"act_{uuid7().hex}", operation, asked.subject, COMMAND_LINE)
    waiting = write(settings, lambda c, now: _attempt(c, now, settings, asked, action))
    if waiting is not None:
        _explain(settings, waiting.approval_id)
    try:
        yield
    except BaseException:
        write(settings, lambda c, now: end_action(c, action, None, _CONFLICT, "refused", now))
        raise
    write(settings, lambda c, now: end_action(c, action, None, _DONE, None, now))


def _explain(settings: Settings, approval_id: str) -> NoReturn:
    where = f"{settings.console_url}/console" if settings.console_url else "the server's /console"
    fail(
        f"a second operator must approve this, and nothing was done yet: {approval_id}",
        f"Another operator approves it on the Team page of {where}, or with\n"
        f"POST /v1/ops/approvals/{approval_id}/approve. Then the server carries it out.\n"
        f"To withdraw it: holdfast approvals reject {approval_id}",
    )


def _endpoint_of(operation: str) -> "Endpoint":
    from holdfast.http.endpoints.people.irreversible import GUARDED  # noqa: PLC0415 - only where approvals are on

    return next(endpoint for endpoint in GUARDED if endpoint.operation_id == operation)


def _asked(operation: str, subject_id: str, body: object, key: str | None) -> Asked:
    kind = _endpoint_of(operation).path_parameters[0].removesuffix("_id")
    subject = subject_id if kind == "parked" else f"{kind}:{subject_id}"
    return Asked(operation, subject, [subject_id], b"" if body is None else json.encode(body), key)


def _attempt(connection: Connection, now: int, settings: Settings, asked: Asked, action: Action) -> "Approval | None":
    from holdfast.http.endpoints.people.irreversible import Attempt, approval_for  # noqa: PLC0415 - as above

    begin_action(connection, action, None, asked.body or None, now)
    attempt = Attempt(asked, COMMAND_LINE, now, settings.approval_refunds_per_hour)
    waiting = approval_for(connection, _endpoint_of(asked.action), attempt)
    if waiting is not None:
        end_action(connection, action, None, _CONFLICT, "approval_required", now)
    return waiting
