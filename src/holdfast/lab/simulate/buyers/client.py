"""The client's end of one request."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Gone(Exception):
    """The client has disconnected."""


class Defect(Exception):
    """The request failed in a way that is a 500."""


class Client:
    def __init__(self, gone: asyncio.Future[None]) -> None:
        self.gone = gone

    async def wait(self, future: asyncio.Future[T]) -> T:
        """What a server does with a command: it is cancelled if the client leaves."""
        self.gone.add_done_callback(lambda _: future.cancel())
        try:
            return await future
        except asyncio.CancelledError:
            if self.gone.done():
                raise Gone from None
            raise
