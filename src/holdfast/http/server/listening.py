"""Listening with granian until a signal, or until the supervisor is gone."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from typing import Protocol

from granian.constants import Interfaces

from holdfast.http.server.granian_server import build_server
from holdfast.http.server.rsgi import Answering, RsgiApp
from holdfast.http.server.starting import StartingApp

# SIGTERM promises an exit within 10 s; requests in flight after this are cut off. That is longer than a transaction on
# a frozen database lasts, and leaves the rest for what else there is to close.
FINISH_S = 6.0
# After the last answer is handed over, the server's own thread still has to write it to the socket.
FLUSH_S = 0.1
# Granian ends in milliseconds unless clients keep it, and those have had their time.
CLOSE_S = 0.5


class Stoppable(Answering, Protocol):
    def end_streams(self) -> None:
        """Call it before the server stops, which would wait for open streams."""

    async def finish(self) -> None:
        """Wait until every request in flight is answered."""


class Listener:
    def __init__(self, host: str, port: int) -> None:
        self._target = RsgiApp(StartingApp())
        self._server = build_server(self._target, host, port, Interfaces.RSGI)
        self._serving: asyncio.Task[None] | None = None

    def listen(self) -> "asyncio.Task[None]":
        if self._serving is None:
            self._serving = asyncio.create_task(self._server.serve())
        return self._serving

    async def serve(self, app: Stoppable, stopping: asyncio.Event) -> None:
        self._target.app = app
        serving = self.listen()
        await asyncio.wait([serving, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        app.end_streams()
        self.stop()
        await _finish(app, serving)

    def stop(self) -> None:
        if self._serving is not None and not self._serving.done():
            self._server.stop()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """If the loop ended first, granian would complain about its callbacks."""
        self.stop()
        if self._serving is not None:
            await asyncio.wait([self._serving], timeout=CLOSE_S)


def stop_on_signal(stop: Callable[[], None], supervisor: Pipe | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if supervisor is not None:
        loop.add_reader(supervisor.fileno(), stop)


async def _finish(app: Stoppable, serving: "asyncio.Task[None]") -> None:
    """Clients that are slow to send a head or a body keep granian from returning; they have until then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FINISH_S):
            await asyncio.shield(serving)
            await app.finish()
    await asyncio.sleep(FLUSH_S)
