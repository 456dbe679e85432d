"""One connection of HTTP/1.1: what arrives becomes requests, and answers leave in the order in which they were asked.

The model. httptools (the parser of Node.js) cuts what arrives into messages. A request is handed over as soon as its
head is there and what came with it was read, which nearly always is the whole of it, so its body costs no second turn
of the event loop. Requests that follow without waiting stand in line, and nothing more is read meanwhile. Everything
happens on the event loop's own thread; there is no hand-over between threads (docs/adr/0009-own-front.md).

When it fails. What is not HTTP is told so and the connection closed, because nobody knows where the next request would
begin; likewise where an answer was given before the body had arrived: the rest is thrown away for a moment, so that
the client can read its answer, and never taken for a request. Who is slow is closed by the front's round (`check`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

import structlog
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from holdfast.http.front import answering
from holdfast.http.front.exchange import MAX_FIELDS, Exchange
from holdfast.http.problems import Problem
from holdfast.http.requests import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    Answer,
    Request,
    body_too_large,
    headers_too_large,
    not_http,
    refuse,
)
from holdfast.http.sending import send_while_there

if TYPE_CHECKING:
    from holdfast.http.front.listening import Front

log = structlog.get_logger()

# Requests that may follow one another without waiting, before nothing more is read; and before it is too much.
MAX_AHEAD, TOO_FAR_AHEAD = 32, 1_000
# A smaller head cannot be too long, and need not be measured.
_SUSPECT_BYTES = 16 * 1024
# A request that has not ended by then never will: a body of single bytes, each a chunk, is six times as long.
_MESSAGE_MAX = MAX_HEADER_BYTES + 8 * MAX_BODY_BYTES
# A head must have arrived by then, counted from its first byte, or from the connection where there is none.
HEAD_S = 10.0
# Longer than load balancers keep a connection that rests, so that it is they who close it.
REST_S = 75.0
# Whoever takes no byte of an answer for so long is gone, or means us no good.
UNREAD_S = 30.0
# How long the rest of a refused body is thrown away.
LINGER_S = 2.0


class Connection(asyncio.Protocol):
    __slots__ = (
        "_ahead", "_arrived_bytes", "_front", "_has_asked", "_incoming", "_is_deaf", "_is_suspect", "_left",
        "_lingers", "_parser", "_serving", "_since", "_task", "_transport", "_unread", "_unread_bytes", "_upgrade",
        "is_left", "peer",
    )  # fmt: skip

    def __init__(self, front: "Front") -> None:
        self._front = front
        self._parser = HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.peer = ""
        self._incoming: Exchange | None = None
        self._serving: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._ahead: deque[Exchange] = deque()
        self._arrived_bytes = self._unread_bytes = 0
        self._has_asked = self._lingers = self._is_deaf = self._is_suspect = self.is_left = False
        self._left: asyncio.Event | None = None
        self._unread: asyncio.Event | None = None
        self._upgrade: Exchange | None = None
        self._since = front.now

    # --- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's do not derive from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if not self._front.admit(self):
            self._transport.write(self._front.full)
            self._linger()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client_left()
        self._ahead.clear()
        if self._unread is not None:
            self._unread.set()
        self._front.forget(self)
        # They hold us as well, and the collector comes rarely.
        self._incoming = None
        del self._parser

    def eof_received(self) -> bool:
        """Who only closed their half may still be answered; who waits in a line for long is asked about (`left`)."""
        self._client_left()
        return self._serving is not None or bool(self._ahead)

    def pause_writing(self) -> None:
        self._unread, self._since = asyncio.Event(), self._front.now

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.set()
            self._unread = None
        self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if len(data) > _SUSPECT_BYTES:
            self._is_suspect = True
        before = self._incoming
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as exc:
            self._stay_with_http(data[exc.args[0] :])
            return
        except HttpParserError:
            self._refuse(not_http())
            return
        incoming = self._incoming
        if incoming is not None:
            # What it began with may be mostly the requests before it.
            is_its_own = incoming is before or not self._has_asked
            self._take_stock(incoming, len(data) if is_its_own else 0)

    def _take_stock(self, incoming: Exchange, arrived: int) -> None:
        """Of a request that has not arrived as a whole."""
        self._arrived_bytes += arrived
        self._is_suspect = self._is_suspect or self._arrived_bytes > _SUSPECT_BYTES
        if not incoming.is_whole_head:
            if self._arrived_bytes > MAX_HEADER_BYTES:
                self._refuse(headers_too_large())
        elif not incoming.is_dispatched:
            self._dispatch(incoming)
        elif self._arrived_bytes > _MESSAGE_MAX:
            self._refuse(body_too_large())

    def _stay_with_http(self, rest: bytes) -> None:
        """We speak nothing else. To the parser HTTP ends with such a head, whatever body follows it, and Java's client
        sends one at the beginning of every connection: so it is read again as a request that wishes for no more."""
        upgrade, self._upgrade = self._upgrade, None
        assert upgrade is not None
        if upgrade.method == "CONNECT" or len(upgrade.fields) > MAX_FIELDS:
            upgrade.is_persistent, self._is_deaf = False, True
            self._dispatch(upgrade)
        else:
            self._parser = HttpRequestParser(self)
            self.data_received(upgrade.head_without_upgrade() + rest)

    # --- the parser

    def on_message_begin(self) -> None:
        self._incoming = Exchange(self)
        self._arrived_bytes, self._since = 0, self._front.now

    def on_url(self, part: bytes) -> None:
        assert self._incoming is not None
        self._incoming.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """What follows a body in chunks comes too late to say anything about it."""
        incoming = self._incoming
        assert incoming is not None
        if not incoming.is_whole_head and len(incoming.fields) <= MAX_FIELDS:
            incoming.fields.append((name, value))

    def on_headers_complete(self) -> None:
        incoming, parser = self._incoming, self._parser
        assert incoming is not None
        incoming.head_arrived(
            parser.get_method().decode("latin-1"),
            is_persistent=parser.should_keep_alive(),
            speaks_chunks=parser.get_http_version() == "1.1",
        )
        if parser.should_upgrade():
            # Not to be answered as it is.
            self._upgrade, incoming.is_dispatched = incoming, True

    def on_body(self, part: bytes) -> None:
        assert self._incoming is not None
        self._incoming.body_arrived(part)

    def on_message_complete(self) -> None:
        incoming, self._incoming = self._incoming, None
        assert incoming is not None
        incoming.all_arrived()
        if not incoming.is_dispatched:
            self._dispatch(incoming)

    # --- serving

    def _dispatch(self, exchange: Exchange) -> None:
        exchange.is_dispatched = True
        if self._lingers or self._transport.is_closing():
            return  # Whoever was told goodbye has said enough.
        if self._serving is not None or self._unread is not None:
            self._ahead.append(exchange)
            if len(self._ahead) == MAX_AHEAD:
                self._transport.pause_reading()
            elif len(self._ahead) > TOO_FAR_AHEAD:
                self._transport.abort()
        else:
            self._serve(exchange)

    def _serve(self, exchange: Exchange) -> None:
        self._has_asked = True
        try:
            self._begin(exchange)
        except Exception:
            log.exception("connection_failed")
            self._transport.close()

    def _begin(self, exchange: Exchange) -> None:
        problem = exchange.problem or self._objection(exchange)
        if problem is not None:
            self._send(exchange, refuse(problem))
            return
        request = exchange.request()
        answer = self._front.answer_at_once(request) if exchange.is_complete else None
        if answer is not None:
            self._send(exchange, answer)
        else:
            self._serving = exchange
            self._task = self._front.loop.create_task(self._answer(exchange, request))

    async def _answer(self, exchange: Exchange, request: Request) -> None:
        try:
            answer = await self._front.answer(request)
            if answer is None:
                self._transport.close()
            elif answer.stream is not None:
                await self._send_stream(exchange, answer, answer.stream)
            else:
                self._send(exchange, answer)
        except asyncio.CancelledError:
            # Whoever asked must not wait for what nobody does any more.
            self._transport.abort()
            raise
        except Exception:
            log.exception("connection_failed")
            self._transport.close()
        self._serving = None
        self._go_on()

    def _objection(self, exchange: Exchange) -> Problem | None:
        if len(exchange.fields) > MAX_FIELDS or (self._is_suspect and exchange.has_long_head):
            exchange.is_persistent = False
            return headers_too_large()
        return None

    def _send(self, exchange: Exchange, answer: Answer) -> None:
        if self._transport.is_closing():
            return
        closes = self._closes_after(exchange)
        self._transport.write(
            answering.whole(
                answer,
                self._front.date,
                closes=closes,
                is_head=exchange.method == "HEAD",
                says_keep=not exchange.speaks_chunks,
            )
        )
        if closes:
            self._close_gently(exchange)

    async def _send_stream(self, exchange: Exchange, answer: Answer, stream: AsyncGenerator[bytes, None]) -> None:
        in_chunks = exchange.speaks_chunks
        closes = self._closes_after(exchange) or not in_chunks
        self._transport.write(answering.opening(answer, self._front.date, closes=closes, in_chunks=in_chunks))

        async def send(portion: bytes) -> None:
            if portion and not self._transport.is_closing():
                self._transport.write(answering.chunk(portion) if in_chunks else portion)
            if self._unread is not None:
                await self._unread.wait()

        await send_while_there(stream, exchange, send)
        if self._transport.is_closing():
            return
        if in_chunks:
            self._transport.write(answering.LAST_CHUNK)
        # The front may have been stopped since, or the client have closed its half.
        if closes or self._closes_after(exchange):
            self._close_gently(exchange)

    def _closes_after(self, exchange: Exchange) -> bool:
        if self._front.is_stopping or self.is_left:
            return not self._ahead or not exchange.is_persistent
        return not exchange.is_persistent or not exchange.is_complete

    def _go_on(self) -> None:
        """With the next requests, if some are in line and the client reads its answers."""
        self._since = self._front.now
        while self._ahead and self._serving is None and self._unread is None and not self._transport.is_closing():
            exchange = self._ahead.popleft()
            if not self._ahead and not self._transport.is_reading():
                self._transport.resume_reading()
            self._serve(exchange)

    # --- the end

    def _refuse(self, problem: Problem) -> None:
        """What nobody can make sense of ends the connection, when what came before it has been answered."""
        self._is_deaf = True
        incoming, self._incoming = self._incoming, None
        if incoming is not None and incoming.is_dispatched:
            incoming.spoil(problem)
            return
        senseless = Exchange(self)
        senseless.problem, senseless.speaks_chunks = problem, True
        self._dispatch(senseless)

    def _close_gently(self, exchange: Exchange) -> None:
        if exchange.is_complete and not self._ahead and not self._is_deaf:
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Closing at once would throw away, on the client's side, the answer that it has not read yet."""
        self._lingers = self._is_deaf = True
        # What followed could not be answered any more, so it must not be done either.
        self._ahead.clear()
        self._since = self._front.now
        if self.is_left or self._transport.is_closing():
            self._transport.close()
        else:
            if not self._transport.is_reading():
                self._transport.resume_reading()
            self._transport.write_eof()

    def _client_left(self) -> None:
        self.is_left = True
        if self._incoming is not None:
            self._incoming.client_left()
        if self._left is not None:
            self._left.set()

    async def left(self) -> None:
        """Returns when the client has closed the connection, or its half of it."""
        if not self.is_left:
            self._left = self._left or asyncio.Event()
            await self._left.wait()

    def ask_for_body(self) -> None:
        self._transport.write(answering.CONTINUE)

    @property
    def rests(self) -> bool:
        """Nothing was asked that is not answered."""
        return self._serving is None and not self._ahead and self._incoming is None

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def check(self) -> None:
        """Called every second: whoever takes too long is closed."""
        if self._unread is not None:
            self._note_progress()
            patience = UNREAD_S
        elif self._serving is not None:
            return
        elif self._lingers:
            patience = LINGER_S
        elif self._front.is_stopping and self.rests:
            # It was being accepted when the front stopped.
            self._transport.close()
            return
        else:
            patience = REST_S if self.rests and self._has_asked else HEAD_S
        if self._front.now - self._since > patience:
            self._transport.abort()

    def _note_progress(self) -> None:
        """However slowly: what is read is read."""
        left = self._transport.get_write_buffer_size()
        if left != self._unread_bytes:
            self._unread_bytes, self._since = left, self._front.now
