"""The load client: HTTP/1.1 over persistent connections, with minimal work between a response and the next request.

There may be fewer connections than requests. A request that finds none free queues for one, and the wait counts towards
its latency, because latency counts from the moment a request was due. `Queue.NEWCOMERS` is served after `Queue.USUAL`:
a browser that was answered before keeps its connection, a new one has to open its own. A connection that the server
closed while idle is reopened when needed; one that breaks with a request in flight yields status 0.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from time import monotonic
from typing import cast

from msgspec import Struct

from holdfast.errors import Unavailable
from holdfast.lab.load.http import Request, Response, end_of_head, parse_response

TIMEOUT_S = 30.0
_SWEEP_S = 1.0
# Refused connections are retried after a pause, so as not to flood a server that is down.
_RECONNECT_S = 0.2
_CONNECT_AT_ONCE = 64
_RETRY_S = 0.5

Reply = Callable[[Response], None]


class Queue(Enum):
    FIRST = auto()
    USUAL = auto()
    NEWCOMERS = auto()


class _Pending(Struct, eq=False):
    message: bytes
    due_at: float
    reply: Reply
    hang_up_s: float | None = None


class _Connection(asyncio.Protocol):
    """At most one request is in flight, so incoming data is the response to it."""

    __slots__ = ("_arrived", "_client", "pending", "sent_at", "transport")

    transport: asyncio.Transport

    def __init__(self, client: "LoadClient") -> None:
        self._client = client
        self.pending: _Pending | None = None
        self.sent_at = 0.0
        self._arrived = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._client.opened(self)

    def send(self, pending: _Pending) -> None:
        self.pending, self.sent_at = pending, monotonic()
        self.transport.write(pending.message)

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived + data if self._arrived else data
        end = end_of_head(arrived)
        if end is None:
            self._arrived = arrived
            return
        self._arrived = b""
        pending, self.pending = self.pending, None
        if pending is None:
            self.transport.abort()
            return
        self._client.answered(self, pending, parse_response(arrived, end, pending.due_at, monotonic()))

    def connection_lost(self, exc: Exception | None) -> None:
        pending, self.pending = self.pending, None
        self._client.lost(self, pending)


class LoadClient:
    def __init__(self, host: str, port: int, connections: int) -> None:
        self._host, self._port = host, port
        self._connections_max = connections
        self._host_header = f"Host: {host}:{port}\r\n".encode()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening = 0
        self._waiting: deque[_Pending] = deque()
        self._newcomers: deque[_Pending] = deque()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.sent = 0
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    @property
    def waiting(self) -> int:
        """The number of requests waiting for a connection."""
        return len(self._waiting) + len(self._newcomers)

    async def connect_all(self) -> None:
        """Connects a few at a time: opening all connections at once would itself be a load test."""
        create = self._loop.create_connection
        while len(self._open) < self._connections_max:
            count = min(_CONNECT_AT_ONCE, self._connections_max - len(self._open))
            await asyncio.gather(*(create(lambda: _Connection(self), self._host, self._port) for _ in range(count)))

    async def request(self, request: Request, *, attempts: int = 1) -> Response:
        """Awaits the response; retries while the server is busy or unreachable."""
        while True:
            attempts -= 1
            response = await self._response(request)
            if response.status == 0 and not attempts:
                raise Unavailable(f"http://{self._host}:{self._port} does not answer: {request.method} {request.path}")
            if not response.should_retry or not attempts:
                return response
            await asyncio.sleep(response.retry_after_s or _RETRY_S)

    async def _response(self, request: Request) -> Response:
        answered: asyncio.Future[Response] = self._loop.create_future()

        def reply(response: Response) -> None:
            # The caller may have been cancelled in the meantime.
            if not answered.done():
                answered.set_result(response)

        self.send(request, monotonic(), reply)
        return await answered

    def send(self, request: Request, due_at: float, reply: Reply, queue: Queue = Queue.USUAL) -> None:
        self._enqueue(_Pending(request.encode(self._host_header), due_at, reply, request.hang_up_s), queue)

    def send_encoded(self, message: bytes, due_at: float, reply: Reply) -> None:
        self._enqueue(_Pending(message, due_at, reply), Queue.USUAL)

    def _enqueue(self, pending: _Pending, queue: Queue) -> None:
        if self._idle:
            self._write(self._idle.pop(), pending)
            return
        if queue is Queue.FIRST:
            self._waiting.appendleft(pending)
        elif queue is Queue.NEWCOMERS:
            self._newcomers.append(pending)
        else:
            self._waiting.append(pending)
        self._open_more()

    def drop_due_before(self, moment: float) -> int:
        """Drops requests that are waiting for a connection and were due before this moment; returns their number."""
        count = 0
        while self._waiting and self._waiting[0].due_at < moment:
            self._waiting.popleft()
            count += 1
        return count

    def _write(self, connection: _Connection, pending: _Pending) -> None:
        self.sent += 1
        connection.send(pending)
        if pending.hang_up_s is not None:
            self._loop.call_later(pending.hang_up_s, self._hang_up, connection, pending)

    def _hang_up(self, connection: _Connection, pending: _Pending) -> None:
        if connection.pending is pending:
            connection.transport.abort()

    def _open_more(self) -> None:
        if self._opening < self.waiting and len(self._open) + self._opening < self._connections_max:
            if self._is_closed:
                return
            self._opening += 1
            task = self._loop.create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: _Connection(self), self._host, self._port)
        except OSError:
            await asyncio.sleep(_RECONNECT_S)
            self._fail(self._next())
        finally:
            self._opening -= 1
        self._open_more()

    def _fail(self, pending: _Pending | None) -> None:
        if pending is not None:
            pending.reply(Response(0, b"", pending.due_at, monotonic()))

    def opened(self, connection: _Connection) -> None:
        self._open.add(connection)
        self._reuse(connection)

    def answered(self, connection: _Connection, pending: _Pending, response: Response) -> None:
        self._reuse(connection)
        if pending.hang_up_s is not None:
            # The response arrived before the hang-up, but the caller has left anyway.
            self._fail(pending)
        else:
            pending.reply(response)

    def _reuse(self, connection: _Connection) -> None:
        pending = self._next()
        if pending is None:
            self._idle.append(connection)
        else:
            self._write(connection, pending)

    def _next(self) -> _Pending | None:
        if self._waiting:
            return self._waiting.popleft()
        return self._newcomers.popleft() if self._newcomers else None

    def lost(self, connection: _Connection, pending: _Pending | None) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._fail(pending)
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
