"""A team: operators, their sessions, and the record of what they did."""

from functools import partial

from holdfast.http.contract import problems, team_problems
from holdfast.http.contract.endpoint import ADMIN, ANY_SERVICE, PUBLIC, READ_OPERATE, Answers, Endpoint, Priority
from holdfast.http.contract.schemas.approvals import ApprovalList, ApprovalOut, ApprovalQuery
from holdfast.http.contract.schemas.operate import SessionOut
from holdfast.http.contract.schemas.team import (
    ActionPage,
    ActionQuery,
    ConsoleSessionList,
    InvitationIn,
    InvitedOut,
    OperatorIn,
    OperatorList,
    OperatorOut,
    PasswordIn,
    SignInOptionsOut,
)

_endpoint = partial(Endpoint, tag="team", priority=Priority.CONSOLE)

LIST_OPERATORS = _endpoint(
    "list_operators",
    "GET /v1/ops/operators",
    summary="List operators, disabled ones included",
    access=ADMIN,
    answers={200: Answers("The operators", OperatorList)},
)
INVITE_OPERATOR = _endpoint(
    "invite_operator",
    "POST /v1/ops/operators",
    summary="Invite an operator",
    description=(
        "The response has a link that sets a password; it works once, for a week. For a known address it is a new "
        "invitation: the role becomes this one, sessions end, and a disabled operator may sign in again. Where "
        "operators sign in by OIDC, the invitation is for the address that the issuer has verified."
    ),
    access=ADMIN,
    body=OperatorIn,
    answers={201: Answers("The operator, with the link", InvitedOut)},
)
DISABLE_OPERATOR = _endpoint(
    "disable_operator",
    "POST /v1/ops/operators/{operator_id}/disable",
    summary="Disable an operator",
    description="Their sessions end, and the keys they made are revoked, from the next request on. A repeat changes "
    "nothing.",
    access=ADMIN,
    answers={200: Answers("The operator", OperatorOut)},
    problems=(team_problems.OPERATOR_NOT_FOUND,),
)
LIST_SESSIONS = _endpoint(
    "list_sessions",
    "GET /v1/ops/sessions",
    summary="List console sessions",
    description="With the scope `admin`, everybody's; otherwise the operator's own.",
    access=ANY_SERVICE,
    answers={200: Answers("The sessions", ConsoleSessionList)},
)
REVOKE_SESSION = _endpoint(
    "revoke_session",
    "DELETE /v1/ops/sessions/{session_id}",
    summary="End a console session",
    description="On every server from the next request on. Without the scope `admin`, only the operator's own.",
    access=ANY_SERVICE,
    answers={204: Answers("Ended")},
    problems=(team_problems.SESSION_NOT_FOUND,),
)
LIST_ACTIONS = _endpoint(
    "list_actions",
    "GET /v1/ops/actions",
    summary="List operators' actions, newest first",
    description="Every change by an operator or a key with the scopes `sales`, `operate`, `money` or `admin`, with the "
    "state before and after. The record is append-only.",
    access=READ_OPERATE,
    query=ActionQuery,
    answers={200: Answers("A page of actions", ActionPage)},
)
LIST_APPROVALS = _endpoint(
    "list_approvals",
    "GET /v1/ops/approvals",
    summary="List requests that wait for a second operator, newest first",
    access=READ_OPERATE,
    query=ApprovalQuery,
    answers={200: Answers("The requests", ApprovalList)},
)
APPROVE = _endpoint(
    "approve_request",
    "POST /v1/ops/approvals/{approval_id}/approve",
    summary="Approve what another operator asked for, and carry it out",
    description="Needs a named operator with the scope of what is approved. The answer has the outcome; one that was "
    "approved, but whose `status` is null, may be approved again.",
    access=ANY_SERVICE,
    answers={200: Answers("The request, with its outcome", ApprovalOut)},
    problems=(
        team_problems.APPROVAL_NOT_FOUND,
        team_problems.APPROVAL_DECIDED,
        team_problems.APPROVAL_BY_ANOTHER,
    ),
)
REJECT = _endpoint(
    "reject_request",
    "POST /v1/ops/approvals/{approval_id}/reject",
    summary="Reject what another operator asked for, or withdraw your own request",
    access=ANY_SERVICE,
    answers={200: Answers("The request", ApprovalOut)},
    problems=(team_problems.APPROVAL_NOT_FOUND, team_problems.APPROVAL_DECIDED),
)
GET_SIGN_IN = _endpoint(
    "get_sign_in",
    "GET /v1/console/sign-in",
    summary="How operators can sign in",
    access=PUBLIC,
    answers={200: Answers("The ways", SignInOptionsOut)},
)
SIGN_IN_WITH_PASSWORD = _endpoint(
    "sign_in_with_password",
    "POST /v1/console/password",
    summary="Sign in to the console as an operator",
    description="For the console's own page: needs `Holdfast-Console: 1`, and sets a cookie. Wrong passwords are "
    "limited by account and address.",
    access=PUBLIC,
    body=PasswordIn,
    answers={200: Answers("The session", SessionOut)},
    problems=(team_problems.SIGN_IN_REFUSED, problems.FORBIDDEN),
)
ACCEPT_INVITATION = _endpoint(
    "accept_invitation",
    "POST /v1/console/invitation",
    summary="Set a password with an invitation, and sign in",
    description="For the console's own page: needs `Holdfast-Console: 1`, and sets a cookie.",
    access=PUBLIC,
    body=InvitationIn,
    answers={200: Answers("The session", SessionOut)},
    problems=(team_problems.INVITATION_NOT_FOUND, problems.FORBIDDEN),
)


def _redirect(name: str, path: str, summary: str) -> Endpoint:
    """For browsers that go there; not part of the OpenAPI document."""
    return _endpoint(name, f"GET {path}", summary, access=PUBLIC, answers={302: Answers(summary)}, is_documented=False)


BEGIN_OIDC = _redirect("begin_oidc", "/v1/console/oidc", "Sends the browser to the issuer")
FINISH_OIDC = _redirect("finish_oidc", "/v1/console/oidc/callback", "Where the issuer sends it back to")
