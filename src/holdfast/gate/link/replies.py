"""What the replies to one call leave certain."""

from collections.abc import Sequence
from typing import Any

from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.link.port import Command, ErrorReply
from holdfast.gate.link.redis_url import Address

# What a server says instead of executing a command. Inside a function they come before its first write, too.
_NOT_EXECUTED = frozenset(
    {"LOADING", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "BUSY"}
    | {"CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"}
)
_FORBIDDEN = frozenset({"NOAUTH", "NOPERM"})

# They only wait for what was done before them: that they were answered does not mean that anything was.
_WAITING = frozenset({"WAIT", "WAITAOF"})


class RedisRefused(Unavailable):
    """An error reply to a command that could not be executed as it stands, such as a function that is not there."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"Redis refused: {code} {message}")
        self.code = code
        self.message = message


class NotPermitted(Unavailable):
    """The user that Holdfast is to Redis may not do this."""


def executed(commands: Sequence[Command], replies: list[Any]) -> list[Any]:
    """The replies, if none is an error; else that error, by what it leaves certain."""
    refusal = _first_refusal(replies)
    if refusal is None:
        return replies
    if _was_any_executed(commands, replies):
        raise OutcomeUnknown(f"Redis executed a part and refused the rest: {refusal.code} {refusal.message}")
    if refusal.code in _FORBIDDEN:
        raise NotPermitted(f"Redis does not permit it: {refusal.code} {refusal.message}")
    if refusal.code in _NOT_EXECUTED:
        raise Unavailable(f"Redis cannot do it now: {refusal.code} {refusal.message}")
    raise RedisRefused(refusal.code, refusal.message)


def executed_everywhere(answers: Sequence[list[Any] | BaseException]) -> list[list[Any]]:
    """The replies of every primary, if none failed; else one failure that is true for all of them together."""
    done = [answer for answer in answers if not isinstance(answer, BaseException)]
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    if not failures:
        return done
    # A defect comes before a doubt, and a doubt before a refusal.
    worst = min(failures, key=lambda failure: (isinstance(failure, EngineError), isinstance(failure, Unavailable)))
    if done and isinstance(worst, Unavailable):
        raise OutcomeUnknown(f"executed on some primaries only: {worst}") from worst
    raise worst


def redirect(commands: Sequence[Command], replies: list[Any], asked: Address) -> tuple[str, Address] | None:
    """MOVED or ASK, and where to; None if anything was executed where it was asked."""
    refusal = _first_refusal(replies)
    if refusal is None or refusal.code not in ("MOVED", "ASK") or _was_any_executed(commands, replies):
        return None
    # `slot host:port`, in which no host means the one that was asked.
    host, _, port = refusal.message.split(" ")[1].rpartition(":")
    return refusal.code, (host or asked[0], int(port))


def _first_refusal(replies: list[Any]) -> ErrorReply | None:
    return next((reply for reply in replies if isinstance(reply, ErrorReply)), None)


def _was_any_executed(commands: Sequence[Command], replies: list[Any]) -> bool:
    return any(
        not isinstance(reply, ErrorReply) and _name(command) not in _WAITING
        for command, reply in zip(commands, replies, strict=True)
    )


def _name(command: Command) -> str:
    name = command[0]
    return (name.decode() if isinstance(name, bytes) else str(name)).upper()
