"""The interface of a Redis link. Imports nothing of redis-py, which most installations do not need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Command = Sequence[str | bytes | int]


@dataclass(frozen=True)
class ErrorReply:
    """The refusal of one command. It is a reply like any other: those after it still have to be read."""

    code: str
    message: str


class RedisLink(Protocol):
    async def call(self, key: str, *commands: Command) -> list[Any]:
        """Send all in one write to the server that owns `key`; returns their replies in order."""

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        """The same on every primary; returns the replies of each."""

    async def close(self) -> None: ...
