"""Where connections come in: one event loop, one listening socket, and a round every second for who is slow."""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate

from holdfast.http.address import CONNECTIONS_MAX
from holdfast.http.front import answering
from holdfast.http.front.connection import Connection
from holdfast.http.problems import Problem
from holdfast.http.requests import Answer, Request, refuse

_BACKLOG = 4_096
_ROUND_S = 1.0
_FULL = Problem(503, "busy", "Busy", "Too many connections at once. Nothing was changed; try again shortly.")

Handler = Callable[[Request], Awaitable[Answer | None]]
QuickHandler = Callable[[Request], Answer | None]


class Front:
    """`answer` gives None where there is nobody left to tell; the connection is then closed. `answer_at_once` gives the
    answer if there is nothing to wait for, else None, and then `answer` is asked."""

    def __init__(self, answer: Handler, answer_at_once: QuickHandler = lambda _: None) -> None:
        self.answer, self.answer_at_once = answer, answer_at_once
        self.loop = asyncio.get_running_loop()
        self.is_stopping = False
        self._connections: set[Connection] = set()
        self._emptied = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._make_round()

    async def listen(self, host: str, port: int, *, shared: bool = False) -> None:
        """`shared`: with other processes on the same port."""
        self._server = await self.loop.create_server(
            lambda: Connection(self), host, port, backlog=_BACKLOG, reuse_port=shared or None
        )

    def _make_round(self) -> None:
        self._round = self.loop.call_later(_ROUND_S, self._make_round)
        # A clock for all connections: a second is precise enough for who is slow, and for the date of an answer.
        self.now = self.loop.time()
        self.date = f"date: {formatdate(usegmt=True)}\r\n"
        for connection in list(self._connections):
            connection.check()

    @property
    def full(self) -> bytes:
        return answering.whole(refuse(_FULL), self.date, closes=True, is_head=False)

    def admit(self, connection: Connection) -> bool:
        self._connections.add(connection)
        return len(self._connections) <= CONNECTIONS_MAX

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._emptied.set()

    async def stop(self) -> None:
        """Take no more, and return when what was asked is answered."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()
        for connection in [each for each in self._connections if each.rests]:
            connection.close()
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    def abort(self) -> None:
        """Cut off who is left."""
        self._round.cancel()
        for connection in list(self._connections):
            connection.abort()
