"""The errors that a call can raise.

    HoldfastError
    ├── Problem              the server refused: `reason`, `status`, `retryable`, `members`
    │   ├── InvalidCall      400, 405, 408, 411, 413, 414, 422, 431
    │   ├── NotAllowed       401, 403
    │   ├── NotFound         404, 410
    │   ├── Conflict         409
    │   ├── TooManyRequests  429
    │   └── ServerProblem    500, 503
    ├── Unreachable          no connection: nothing was sent, nothing was changed
    ├── NoAnswer             it was sent, and it is unknown whether it was carried out
    ├── UnexpectedAnswer     not a response from Holdfast
    ├── WaitTimedOut         `wait_for` reached its timeout
    └── InvalidSignature     a webhook that was not signed with this secret, or too long ago

Each `reason` has its own class in `holdfast.client.problems`, a subclass of the class of its status.
"""

from typing import Any, Self

# The classes of `holdfast.client.problems`.
BY_REASON: dict[str, "type[Problem]"] = {}


class HoldfastError(Exception):
    """The base class of all errors of the client."""


class Problem(HoldfastError):
    """A refusal in the format of RFC 9457. `members` are the fields that only this problem has, such as `available`."""

    def __init_subclass__(cls, reason: str | None = None) -> None:
        if reason is not None:
            BY_REASON[reason] = cls

    def __init__(self, status: int, document: dict[str, Any], retry_after_s: float | None = None) -> None:
        known = dict(document)
        self._given = (status, dict(document), retry_after_s)
        self.status = status
        self.type = str(known.pop("type", "about:blank"))
        self.title = str(known.pop("title", "Refused"))
        self.detail = str(known.pop("detail", ""))
        self.reason = str(known.pop("reason", "unknown"))
        self.retryable = bool(known.pop("retryable", False))
        self.retry_after_s = retry_after_s
        known.pop("status", None)
        self.members = known
        super().__init__(f"{status} {self.reason}: {self.detail or self.title}")

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Task queues and process pools pickle exceptions."""
        return type(self), self._given


class InvalidCall(Problem):
    """The call is invalid: sent again unchanged, it is refused again."""


class NotAllowed(Problem):
    """The key or token is missing, invalid, or does not allow this."""


class NotFound(Problem):
    """There is nothing with this ID, or it is not visible to this caller."""


class Conflict(Problem):
    """The call is valid, but not in the current state."""


class TooManyRequests(Problem):
    """May be retried after `retry_after_s`."""


class ServerProblem(Problem):
    """The server is overloaded or currently unable to process the call."""


class Unreachable(HoldfastError):
    """No connection to the server. Nothing was sent."""


class NoAnswer(HoldfastError):
    """The response was lost. If the call has an `idempotency_key`, a retry with the same key returns the outcome."""

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class UnexpectedAnswer(HoldfastError):
    """A proxy responded, or a server other than Holdfast."""


class WaitTimedOut(HoldfastError):
    """The wait timed out. Waiting changed nothing."""


class InvalidSignature(HoldfastError):
    """Do not process this webhook; respond with 401."""
