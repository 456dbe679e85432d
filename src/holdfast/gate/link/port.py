"""What others know of the way to Redis. It loads nothing of redis-py, which most who run Holdfast have no use for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Command = Sequence[str | bytes | int]


@dataclass(frozen=True)
class ErrorReply:
    """The server's refusal of one command. A reply like any other: those after it are still to be read."""

    code: str
    message: str


class RedisLink(Protocol):
    async def call(self, key: str, *commands: Command) -> list[Any]:
        """Send all in one write to the server that owns `key`; gives their replies in order."""

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        """The same on every primary; gives the replies of each."""

    async def close(self) -> None: ...
