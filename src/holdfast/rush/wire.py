"""HTTP/1.1 over kept connections, with as little as can be between an answer and the next request.

Connections are fewer than buyers: whoever finds none free waits, in order, and that counts into their latency. Who has
been answered before goes before newcomers, because their browser keeps its connection; theirs has to be made. The
server closes a connection after ten seconds of silence; another is opened when there is need.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import cast

from msgspec import Struct

from holdfast.bench.loops import body_length
from holdfast.rush.wishes import Answer, Ask, Step

TIMEOUT_S = 30.0
_SWEEP_S = 1.0
# A refused connection is tried again after a moment, so that a server that is down is not asked a million times.
_RECONNECT_S = 0.2
_RETRY_AFTER = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)

_OF_NEWCOMERS = frozenset({Step.CHALLENGE, Step.JOIN})

Reply = Callable[[Answer], None]


class Pending(Struct, eq=False):
    ask: Ask
    due_at: float
    reply: Reply


class _Connection(asyncio.Protocol):
    __slots__ = ("_arrived", "pending", "sent_at", "transport", "wire")

    transport: asyncio.Transport

    def __init__(self, wire: "Wire") -> None:
        self.wire = wire
        self.pending: Pending | None = None
        self.sent_at = 0.0
        self._arrived = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.wire.opened(self)

    def send(self, pending: Pending, request: bytes) -> None:
        self.pending, self.sent_at = pending, monotonic()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived + data if self._arrived else data
        end = arrived.find(b"\r\n\r\n")
        if end < 0 or len(arrived) < end + 4 + body_length(arrived, end):
            self._arrived = arrived
            return
        self._arrived = b""
        pending, self.pending = self.pending, None
        if pending is None:
            self.transport.abort()
            return
        status = int(arrived[9:12])
        retry = _RETRY_AFTER.search(arrived, 0, end) if status in (429, 503) else None
        answer = Answer(
            status, arrived[end + 4 :], pending.due_at, monotonic(), None if retry is None else float(retry[1])
        )
        self.wire.answered(self, pending, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        pending, self.pending = self.pending, None
        self.wire.lost(self, pending)


class Wire:
    def __init__(self, host: str, port: int, connections: int) -> None:
        self._host, self._port = host, port
        self._most = connections
        self._head = f"Host: {host}:{port}\r\n".encode()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening = 0
        self._line: deque[Pending] = deque()
        self._newcomers: deque[Pending] = deque()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    @property
    def in_line(self) -> int:
        return len(self._line) + len(self._newcomers)

    def send(self, ask: Ask, due_at: float, reply: Reply, *, is_first: bool = False) -> None:
        """`is_first` is for what does not stand in line with people: a cache has its own way to the server."""
        pending = Pending(ask, due_at, reply)
        if self._idle:
            self._write(self._idle.pop(), pending)
            return
        if is_first:
            self._line.appendleft(pending)
        elif ask.step in _OF_NEWCOMERS:
            self._newcomers.append(pending)
        else:
            self._line.append(pending)
        self._open_more()

    def _write(self, connection: _Connection, pending: Pending) -> None:
        ask = pending.ask
        length = b"Content-Length: %d\r\n" % len(ask.body) if ask.method != "GET" else b""
        start = f"{ask.method} {ask.path} HTTP/1.1\r\n".encode()
        connection.send(pending, b"".join((start, self._head, ask.headers, length, b"\r\n", ask.body)))
        if ask.hang_up_s is not None:
            self._loop.call_later(ask.hang_up_s, self._hang_up, connection, pending)

    def _hang_up(self, connection: _Connection, pending: Pending) -> None:
        if connection.pending is pending:
            connection.transport.abort()

    def _open_more(self) -> None:
        if self._opening < self.in_line and len(self._open) + self._opening < self._most and not self._is_closed:
            self._opening += 1
            task = self._loop.create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: _Connection(self), self._host, self._port)
        except OSError:
            await asyncio.sleep(_RECONNECT_S)
            self._fail_first()
        finally:
            self._opening -= 1
        self._open_more()

    def _fail_first(self) -> None:
        pending = self._next()
        if pending is not None:
            pending.reply(Answer(0, b"", pending.due_at, monotonic()))

    def opened(self, connection: _Connection) -> None:
        self._open.add(connection)
        self._rest(connection)

    def answered(self, connection: _Connection, pending: Pending, answer: Answer) -> None:
        self._rest(connection)
        if pending.ask.hang_up_s is not None:
            # Quicker than the caller was gone; they did not read it all the same.
            answer = Answer(0, b"", answer.due_at, answer.at)
        pending.reply(answer)

    def _rest(self, connection: _Connection) -> None:
        pending = self._next()
        if pending is None:
            self._idle.append(connection)
        else:
            self._write(connection, pending)

    def _next(self) -> Pending | None:
        if self._line:
            return self._line.popleft()
        return self._newcomers.popleft() if self._newcomers else None

    def lost(self, connection: _Connection, pending: Pending | None) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if pending is not None:
            pending.reply(Answer(0, b"", pending.due_at, monotonic()))
        self._open_more()

    def _sweep(self) -> None:
        late = monotonic() - TIMEOUT_S
        for connection in [one for one in self._open if one.pending is not None and one.sent_at < late]:
            connection.transport.abort()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def close(self) -> None:
        self._is_closed = True
        self._sweeper.cancel()
        for task in self._tasks:
            task.cancel()
        for connection in list(self._open):
            connection.pending = None
            connection.transport.abort()
