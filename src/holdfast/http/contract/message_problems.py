"""The problems of messages to buyers. They are part of the catalogue in `problems.py`."""

from holdfast.http.contract.problem import ProblemKind


def _kind(status: int, reason: str, title: str, detail: str, action: str = "") -> ProblemKind:
    return ProblemKind(reason=reason, status=status, title=title, detail=detail, action=action)


CONTACT_NOT_FOUND = _kind(404, "contact_not_found", "No contact", "This buyer has not asked for messages.")
MESSAGE_NOT_FOUND = _kind(404, "message_not_found", "No such message", "There is no message with this ID.")
MESSAGES_OFF = _kind(
    409,
    "messages_off",
    "Messages are off",
    "This server sends no messages of this kind.",
    "Set HOLDFAST_SMTP_URL to send messages by mail, HOLDFAST_PUSH_CONTACT to send notifications.",
)
