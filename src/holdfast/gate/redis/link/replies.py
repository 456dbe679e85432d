"""Classifies the replies to a call: executed, refused, or unknown."""

from collections.abc import Sequence
from typing import Any

from holdfast.errors import Cause, EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.gate.redis.link.redis_url import Address

# Error codes of a server that has not executed the command. Within a function they also come before its first write.
_NOT_EXECUTED = frozenset(
    {"LOADING", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "BUSY"} | {"CLUSTERDOWN", "MOVED", "ASK"}
)
# MISCONF: the last attempt to write to disk failed.
_CAUSES = {
    "READONLY": Cause.STORE_READ_ONLY,
    "MISCONF": Cause.DISK_FULL,
    "OOM": Cause.MEMORY_FULL,
    "NOREPLICAS": Cause.REPLICAS_MISSING,
}
_FORBIDDEN = frozenset({"NOAUTH", "NOPERM"})

# They only wait for earlier commands: a reply to them does not mean that anything was executed.
_WAITING = frozenset({"WAIT", "WAITAOF"})


class RedisRefused(Unavailable):
    """An error reply to a command that cannot be executed, such as a call of a missing function."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"Redis refused: {code} {message}")
        self.code = code
        self.message = message


class SlotMigrating(Unavailable):
    """A cluster is moving the keys of the pool to another server: some are here and some are there."""


class NotPermitted(Unavailable):
    """The Redis user of Holdfast lacks a permission."""


def executed(commands: Sequence[Command], replies: list[Any]) -> list[Any]:
    """The replies; raises if one is an error, by whether anything was executed."""
    refusal = _first_refusal(replies)
    if refusal is None:
        return replies
    if _was_any_executed(commands, replies):
        raise OutcomeUnknown(f"Redis executed a part and refused the rest: {refusal.code} {refusal.message}")
    if refusal.code in _FORBIDDEN:
        raise NotPermitted(f"Redis does not permit it: {refusal.code} {refusal.message}")
    if refusal.code == "TRYAGAIN":
        raise SlotMigrating(f"Redis Cluster is moving these keys: {refusal.code} {refusal.message}")
    if refusal.code in _NOT_EXECUTED:
        raise Unavailable(f"Redis cannot do it now: {refusal.code} {refusal.message}", _CAUSES.get(refusal.code))
    raise RedisRefused(refusal.code, refusal.message)


def executed_everywhere(answers: Sequence[list[Any] | BaseException]) -> list[list[Any]]:
    """The replies of every primary; raises one failure that is true of all of them together."""
    done = [answer for answer in answers if not isinstance(answer, BaseException)]
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    if not failures:
        return done
    # A defect takes precedence over an unknown outcome, and that over a refusal.
    worst = min(failures, key=lambda failure: (isinstance(failure, EngineError), isinstance(failure, Unavailable)))
    if done and isinstance(worst, Unavailable):
        raise OutcomeUnknown(f"executed on some primaries only: {worst}") from worst
    raise worst


def redirect(commands: Sequence[Command], replies: list[Any], asked: Address) -> tuple[str, Address] | None:
    """MOVED or ASK, and where to; None if anything was executed where it was asked."""
    refusal = _first_refusal(replies)
    if refusal is None or refusal.code not in ("MOVED", "ASK") or _was_any_executed(commands, replies):
        return None
    # `slot host:port`, where no host means the server that was asked.
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
