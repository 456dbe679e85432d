"""From a call to its result: send, evaluate the response, wait, retry. Shared by the two clients.

A generator yields requests for I/O: it yields `Send` and gets a `Reply`, an `Unreachable` or a `NoAnswer`; it yields
`Pause` and gets None. The clients differ only in how they do these two things.

When is a retry safe? If nothing was changed: there was no connection, or the server said so with 429 or 503. If the
outcome is unknown, only where a retry has no further effect, because the operation is idempotent or carries its key.
The key of a call stays the same through all attempts.
"""

import random
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.client import errors
from holdfast.client.call import Call
from holdfast.client.problems import BY_REASON

T = TypeVar("T")

MEDIA_TYPE = "application/problem+json"
_RETRY_STATUSES = frozenset({408, 429, 503})
# A proxy between us and the server gave up: the server may have carried out the call anyway.
_LOST_STATUSES = frozenset({502, 504})


class Options(Struct, frozen=True):
    # Per attempt.
    timeout_s: float = 10.0
    # 1: never retry.
    attempts: int = 5
    # The limit of a pause doubles from the first to the longest value; the pause is a random part of it.
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0


class OptionChanges(TypedDict, total=False):
    """The fields of `Options`, as arguments of `with_options`."""

    timeout_s: float
    attempts: int
    first_pause_s: float
    longest_pause_s: float


class Send(Struct, frozen=True, eq=False):
    call: Call[Any]
    timeout_s: float


class Pause(Struct, frozen=True):
    seconds: float


class Reply(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    content: bytes


Received = Reply | errors.Unreachable | errors.NoAnswer | None
Steps = Generator[Send | Pause, Received, T]


def conversation(call: Call[T], options: Options) -> Steps[T]:
    attempt = 1
    while True:
        received = yield Send(call if attempt == 1 else _marked(call), options.timeout_s)
        failure = failure_of(call, received)
        if failure is None:
            assert isinstance(received, Reply)
            result: T = call.read(received.status, received.content)
            return result
        if attempt >= options.attempts or not may_repeat(call, failure):
            raise failure
        yield Pause(pause_s(attempt, failure, options))
        attempt += 1


def _marked(call: Call[T]) -> Call[T]:
    """A proxy that responds for a sold-out sale lets retries through, because the first attempt may have won."""
    if call.idempotency_key is None:
        return call
    return replace(call, headers={**call.headers, "Holdfast-Retry": "1"})


def failure_of(call: Call[Any], received: Received) -> errors.HoldfastError | None:
    if not isinstance(received, Reply):
        return received
    if received.status < 400 and received.status in call.answers:
        return None
    if _media_type(received) == MEDIA_TYPE:
        return problem_of(received)
    if received.status in _LOST_STATUSES:
        return errors.NoAnswer(f"A proxy answered {received.status} for the server.", call.idempotency_key)
    return errors.UnexpectedAnswer(f"{call.method} {call.path} answered {received.status} without a problem document.")


def may_repeat(call: Call[Any], failure: errors.HoldfastError) -> bool:
    if isinstance(failure, errors.Unreachable):
        return True
    if isinstance(failure, errors.NoAnswer):
        return call.is_repeatable
    if isinstance(failure, errors.Problem) and failure.status in _RETRY_STATUSES and failure.retryable:
        return call.is_repeatable or failure.reason != "outcome_unknown"
    return False


def pause_s(attempt: int, failure: errors.HoldfastError, options: Options) -> float:
    """At least as long as the server asks for; the random part keeps clients from returning all at once."""
    asked = (failure.retry_after_s or 0.0) if isinstance(failure, errors.Problem) else 0.0
    longest: float = min(options.longest_pause_s, options.first_pause_s * 2 ** (attempt - 1))
    return asked + random.uniform(0.0, longest)


def problem_of(reply: Reply) -> errors.Problem:
    try:
        document = msgspec.json.decode(reply.content, type=dict[str, Any])
    except msgspec.DecodeError:
        document = {"title": _phrase(reply.status)}
    kind = BY_REASON.get(document.get("reason", ""), _of_status(reply.status))
    return kind(reply.status, document, _retry_after_s(reply))


def _of_status(status: int) -> type[errors.Problem]:
    """For a reason that this version does not know."""
    if status >= 500:
        return errors.ServerProblem
    known = {401: errors.NotAllowed, 403: errors.NotAllowed, 404: errors.NotFound, 410: errors.NotFound}
    return known.get(status) or {409: errors.Conflict, 429: errors.TooManyRequests}.get(status, errors.InvalidCall)


def _media_type(reply: Reply) -> str:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower()


def _retry_after_s(reply: Reply) -> float | None:
    """Holdfast sends seconds. A date, which some proxies send, is ignored in favour of our own pauses."""
    value = reply.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None


def _phrase(status: int) -> str:
    return next((known.phrase for known in HTTPStatus if known == status), "Refused")
