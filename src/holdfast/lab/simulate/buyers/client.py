"""The client's side of one request."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Gone(Exception):
    """The client has disconnected."""


class Defect(Exception):
    """The request failed with a defect, which a server answers with 500."""


class Client:
    def __init__(self, gone: asyncio.Future[None]) -> None:
        self.gone = gone

    async def wait(self, future: asyncio.Future[T]) -> T:
        """Waits as a server does: if the client disconnects, the command is cancelled."""
        self.gone.add_done_callback(lambda _: future.cancel())
        try:
            return await future
        except asyncio.CancelledError:
            if self.gone.done():
                raise Gone from None
            raise
