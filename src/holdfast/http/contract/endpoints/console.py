"""The console's session."""

from functools import partial

from holdfast.http.contract.endpoint import ANY_CALLER, Answers, Endpoint, Priority
from holdfast.http.contract.schemas.operate import SessionOut

_endpoint = partial(Endpoint, tag="operate")

SIGN_IN = _endpoint(
    "sign_in",
    "POST /v1/console/session",
    summary="Sign in to the console with a service key",
    description="Sets a cookie that is valid for half a day, and replaces the key if `Holdfast-Console: 1` is sent.",
    access=ANY_CALLER,
    priority=Priority.FINISH,
    answers={200: Answers("The session", SessionOut)},
)
GET_SESSION = _endpoint(
    "get_session",
    "GET /v1/console/session",
    summary="Who is signed in",
    access=ANY_CALLER,
    priority=Priority.READ,
    answers={200: Answers("The session", SessionOut)},
)
SIGN_OUT = _endpoint(
    "sign_out",
    "DELETE /v1/console/session",
    summary="Sign out",
    description="Takes effect on every server from the next request on.",
    access=ANY_CALLER,
    priority=Priority.FINISH,
    answers={204: Answers("Signed out")},
)
