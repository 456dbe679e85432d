"""What a call can raise.

    HoldfastError
    ├── Problem              the server refused: `reason`, `status`, `retryable`, `members`
    │   ├── InvalidCall      400, 405, 408, 411, 413, 414, 422, 431
    │   ├── NotAllowed       401, 403
    │   ├── NotFound         404, 410
    │   ├── Conflict         409
    │   ├── TooManyRequests  429
    │   └── ServerProblem    500, 503
    ├── Unreachable          no connection: nothing was sent, nothing was changed
    ├── NoAnswer             it was sent, and it is not known whether it was carried out
    ├── UnexpectedAnswer     not an answer of Holdfast's
    ├── WaitTimedOut         `wait_for` waited as long as it was told to
    └── InvalidSignature     a webhook that was not signed with this secret, or too long ago

Each `reason` has a class of its own in `holdfast.client.problems`, below the class of its status.
"""

from typing import Any, Self

# The classes of `holdfast.client.problems`.
BY_REASON: dict[str, "type[Problem]"] = {}


class HoldfastError(Exception):
    """All of them."""


class Problem(HoldfastError):
    """A refusal, as RFC 9457 has it. `members` are the fields that only this problem has, such as `available`."""

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
        """Task queues and process pools pass exceptions on as pickles."""
        return type(self), self._given


class InvalidCall(Problem):
    """Sent again unchanged, it is refused again."""


class NotAllowed(Problem):
    """The key or token is missing, not valid, or does not allow this."""


class NotFound(Problem):
    """Nothing by this ID, or not for this caller."""


class Conflict(Problem):
    """Possible in general, but not as things are now."""


class TooManyRequests(Problem):
    """After `retry_after_s` it may be tried again."""


class ServerProblem(Problem):
    """The server is busy or cannot do it now."""


class Unreachable(HoldfastError):
    """No connection to the server. Nothing was sent."""


class NoAnswer(HoldfastError):
    """The answer was lost. The same `idempotency_key` finds the outcome, where the call has one."""

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class UnexpectedAnswer(HoldfastError):
    """A proxy answered, or a server of another kind."""


class WaitTimedOut(HoldfastError):
    """It was not done in time. Nothing was changed by waiting."""


class InvalidSignature(HoldfastError):
    """Do not act on this webhook; answer 401."""
