"""The problems of operators and their sessions. They are part of the catalogue in `problems.py`."""

from holdfast.http.contract.problem import ProblemKind


def _kind(status: int, reason: str, title: str, detail: str, action: str = "") -> ProblemKind:
    return ProblemKind(reason=reason, status=status, title=title, detail=detail, action=action)


OPERATOR_NOT_FOUND = _kind(404, "operator_not_found", "No such operator", "There is no operator with this ID.")
SESSION_NOT_FOUND = _kind(404, "session_not_found", "No such session", "There is no session with this ID now.")
INVITATION_NOT_FOUND = _kind(
    404,
    "invitation_not_found",
    "Invitation not valid",
    "It was used, has expired or was replaced by a newer one.",
    "Ask for a new invitation.",
)
APPROVAL_REQUIRED = _kind(
    409,
    "approval_required",
    "Needs a second operator",
    "Nothing was done yet. It is carried out when another operator approves it.",
    "Ask a colleague to approve it in the console, or with `POST /v1/ops/approvals/{approval_id}/approve`.",
)
APPROVAL_NOT_FOUND = _kind(404, "approval_not_found", "No such approval", "There is no request with this ID.")
APPROVAL_DECIDED = _kind(
    409, "approval_decided", "Not pending any more", "It was approved or rejected before, or has expired."
)
APPROVAL_BY_ANOTHER = _kind(
    403,
    "approval_by_another",
    "Another operator must approve",
    "Only an operator who is signed in by name can approve, and never their own request.",
)
SIGN_IN_REFUSED = _kind(
    401, "sign_in_refused", "Not signed in", "The email address or the password is wrong.", "Try again."
)
