# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `team`."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.team import (
    ActionPage,
    Approval,
    ApprovalList,
    ConsoleSessionList,
    Invited,
    Operator,
    OperatorList,
    Role,
    Session,
    SignInOptions,
)


def list_operators() -> Call[OperatorList]:
    """List operators, disabled ones included."""
    return Call(
        method="GET",
        path="/v1/ops/operators",
        answers={200: (OperatorList,)},
    )


def invite_operator(*, email: str, name: str, role: Role) -> Call[Invited]:
    """Invite an operator.

    The response has a link that sets a password; it works once, for a week. For a known address it is a new
    invitation: the role becomes this one, sessions end, and a disabled operator may sign in again. Where operators
    sign in by OIDC, the invitation is for the address that the issuer has verified.
    """
    return Call(
        method="POST",
        path="/v1/ops/operators",
        answers={201: (Invited,)},
        body={"email": email, "name": name, "role": role},
    )


def disable_operator(operator_id: str) -> Call[Operator]:
    """Disable an operator.

    Their sessions end, and the keys they made are revoked, from the next request on. A repeat changes nothing.
    """
    return Call(
        method="POST",
        path=path_of("/v1/ops/operators/{operator_id}/disable", operator_id),
        answers={200: (Operator,)},
    )


def list_sessions() -> Call[ConsoleSessionList]:
    """List console sessions.

    With the scope `admin`, everybody's; otherwise the operator's own.
    """
    return Call(
        method="GET",
        path="/v1/ops/sessions",
        answers={200: (ConsoleSessionList,)},
    )


def revoke_session(session_id: str) -> Call[None]:
    """End a console session.

    On every server from the next request on. Without the scope `admin`, only the operator's own.
    """
    return Call(
        method="DELETE",
        path=path_of("/v1/ops/sessions/{session_id}", session_id),
        answers={204: ()},
    )


def list_actions(
    *,
    operator_id: str | None = None,
    subject: str | None = None,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[ActionPage]:
    """List operators' actions, newest first.

    Every change by an operator or a key with the scopes `sales`, `operate`, `money` or `admin`, with the state
    before and after. The record is append-only.
    """
    return Call(
        method="GET",
        path="/v1/ops/actions",
        answers={200: (ActionPage,)},
        query={
            "operator_id": optional(operator_id),
            "subject": optional(subject),
            "limit": limit,
            "starting_after": optional(starting_after),
        },
    )


def list_approvals(
    *, state: Literal["approved", "expired", "pending", "rejected"] | None = None, limit: int | UnsetType = UNSET
) -> Call[ApprovalList]:
    """List requests that wait for a second operator, newest first."""
    return Call(
        method="GET",
        path="/v1/ops/approvals",
        answers={200: (ApprovalList,)},
        query={"state": optional(state), "limit": limit},
    )


def approve_request(approval_id: str) -> Call[Approval]:
    """Approve what another operator asked for, and carry it out.

    Needs a named operator with the scope of what is approved. The answer has the outcome; one that was approved,
    but whose `status` is null, may be approved again.
    """
    return Call(
        method="POST",
        path=path_of("/v1/ops/approvals/{approval_id}/approve", approval_id),
        answers={200: (Approval,)},
    )


def reject_request(approval_id: str) -> Call[Approval]:
    """Reject what another operator asked for, or withdraw your own request."""
    return Call(
        method="POST",
        path=path_of("/v1/ops/approvals/{approval_id}/reject", approval_id),
        answers={200: (Approval,)},
    )


def get_sign_in() -> Call[SignInOptions]:
    """How operators can sign in."""
    return Call(
        method="GET",
        path="/v1/console/sign-in",
        answers={200: (SignInOptions,)},
    )


def sign_in_with_password(*, email: str, password: str) -> Call[Session]:
    """Sign in to the console as an operator.

    For the console's own page: needs `Holdfast-Console: 1`, and sets a cookie. Wrong passwords are limited by
    account and address.
    """
    return Call(
        method="POST",
        path="/v1/console/password",
        answers={200: (Session,)},
        body={"email": email, "password": password},
    )


def accept_invitation(*, token: str, password: str) -> Call[Session]:
    """Set a password with an invitation, and sign in.

    For the console's own page: needs `Holdfast-Console: 1`, and sets a cookie.
    """
    return Call(
        method="POST",
        path="/v1/console/invitation",
        answers={200: (Session,)},
        body={"token": token, "password": password},
    )
