"""How a use case waits for the gate. A server drops a command when its client disconnects; other callers just wait."""

import asyncio
from typing import Protocol, TypeVar

T = TypeVar("T")


class Wait(Protocol):
    async def __call__(self, verdict: asyncio.Future[T], /) -> T: ...
