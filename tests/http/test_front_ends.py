"""The front by itself: how a connection ends, and what must not happen to those who are still on it."""

import asyncio
import gc
import re
from collections.abc import AsyncGenerator
from resource import RLIM_INFINITY

import msgspec
import pytest
from http_front import GET, WITHIN_S, House, on_uvloop, talking, until
from http_sockets import parse_head

from holdfast.http.address import CONNECTIONS_MAX
from holdfast.http.front import connection as connections
from holdfast.http.front.answering import whole
from holdfast.http.requests import Answer, Request
from holdfast.http.server import open_files

STREAM = b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"
TOO_MANY_FIELDS = b"GET /a HTTP/1.1\r\nHost: h\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(200)) + b"\r\n"
MEGABYTE = b"x" * 1_000_000


class Station(House):
    """Its streams go on until it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    async def answer(self, request: Request) -> Answer | None:
        self.seen.append(request)
        return Answer(200, [], b"", self._until_it_is_over())

    async def _until_it_is_over(self) -> AsyncGenerator[bytes, None]:
        yield b"on air"
        await self.over.wait()


class Store(House):
    """Everything in it is large."""

    async def answer(self, request: Request) -> Answer | None:
        self.seen.append(request)
        return Answer(200, [], MEGABYTE)


@on_uvloop
async def test_a_stream_that_was_open_when_the_front_stopped_does_not_keep_it() -> None:
    station = Station()
    async with talking(station) as (front, connect):
        talk = await connect()
        talk.writer.write(STREAM)
        async with asyncio.timeout(WITHIN_S):
            await talk.reader.readuntil(b"on air\r\n")
            stopping = asyncio.create_task(front.stop())
            await asyncio.sleep(0)
            station.over.set()
            assert await talk.reader.read() == b"0\r\n\r\n"
            await stopping


@on_uvloop
async def test_who_closed_their_half_while_listening_is_not_kept() -> None:
    async with talking(Station()) as (front, connect):
        talk = await connect()
        talk.writer.write(STREAM)
        async with asyncio.timeout(WITHIN_S):
            await talk.reader.readuntil(b"on air\r\n")
            talk.writer.write_eof()
            assert await talk.reader.read() == b"0\r\n\r\n"
            await until(lambda: not front._connections)


@pytest.mark.parametrize(
    ("first", "status"),
    [(TOO_MANY_FIELDS, b"431"), (b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"200")],
    ids=["refused", "a stream without chunks"],
)
@on_uvloop
async def test_nothing_is_done_after_the_last_answer(first: bytes, status: bytes) -> None:
    house = House()
    async with talking(house) as (front, connect):
        talk = await connect()
        talk.writer.write(first + GET * 3)
        told = await talk.everything()
        talk.writer.close()
        await until(lambda: not front._connections)
    assert re.findall(rb"HTTP/1.1 (\d+)", told) == [status]
    assert [request.path for request in house.seen if request.path == "/a"] == []


@on_uvloop
async def test_who_leaves_after_a_refusal_is_noticed_however_far_they_ran_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 1_000.0)
    async with talking(House()) as (front, connect):
        talk = await connect()
        talk.writer.write(TOO_MANY_FIELDS + GET * (2 * connections.MAX_AHEAD))
        assert (await talk.everything()).startswith(b"HTTP/1.1 431 ")
        talk.writer.close()
        await until(lambda: not front._connections)


@on_uvloop
async def test_who_closed_their_half_and_reads_slowly_gets_every_answer() -> None:
    async with talking(Store()) as (front, connect):
        talk = await connect()
        talk.reader._transport.pause_reading()  # type: ignore[attr-defined]
        talk.writer.write(GET * 30)
        await until(lambda: any(each._unread for each in front._connections))
        talk.writer.write_eof()
        await until(lambda: all(each.is_left for each in front._connections))
        talk.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert (await talk.everything()).count(MEGABYTE) == 30


@on_uvloop
async def test_a_last_answer_is_waited_for_as_long_as_any_other() -> None:
    """Also where more followed it than we cared to read."""
    long = b"x" * 30_000_000

    class Warehouse(House):
        async def answer(self, request: Request) -> Answer | None:
            return Answer(200, [], long)

    async with talking(Warehouse()) as (front, connect):
        talk = await connect()
        talk.reader._transport.pause_reading()  # type: ignore[attr-defined]
        talk.writer.write(b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\nand more")
        await until(lambda: any(each._unread for each in front._connections))
        for each in front._connections:
            front.now += 10
            each.check()
        talk.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await talk.everything()) > len(long)


@on_uvloop
async def test_a_handler_that_is_cancelled_leaves_nobody_waiting() -> None:
    class Quitter(House):
        async def answer(self, request: Request) -> Answer | None:
            raise asyncio.CancelledError

    async with talking(Quitter()) as (_, connect):
        talk = await connect()
        talk.writer.write(GET)
        assert await talk.everything() == b""


@on_uvloop
async def test_who_was_let_in_as_the_front_stopped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1_000.0)
    async with talking(House()) as (front, connect):
        front.is_stopping = True
        assert await (await connect()).everything() == b""


@on_uvloop
async def test_a_head_is_not_measured_by_the_requests_before_it() -> None:
    house = House()
    async with talking(house) as (front, connect):
        talk = await connect()
        await until(lambda: bool(front._connections))
        (connection,) = front._connections
        padded = b"GET /a HTTP/1.1\r\nHost: h\r\nX-Padding: " + b"x" * 500 + b"\r\n\r\n"
        # As one read, which the system does not promise over a socket.
        connection.data_received(padded * 200 + b"GET /last HTTP/1.1\r\n")
        talk.writer.write(b"Host: h\r\nConnection: close\r\n\r\n")
        assert (await talk.everything()).count(b"HTTP/1.1 200 OK") == 201
    assert house.seen[-1].path == "/last"


@pytest.mark.parametrize("size", [1, 150, 10_000])
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
@on_uvloop
async def test_who_would_rather_speak_http_2_is_answered_body_and_all(framing: bytes, size: int) -> None:
    """Java's client asks so with the first request of every connection."""
    sent = (
        b"POST /a?b HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nX-A: b\r\n" + framing
    )
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        for start in range(0, len(sent), size):
            talk.writer.write(sent[start : start + size])
            await asyncio.sleep(0)
        status, headers, body = await talk.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert msgspec.json.decode(body) == {"method": "POST", "path": "/a", "query": "b", "body": "hello"}
    assert ("x-a", "b") in house.seen[0].wire.headers()


@on_uvloop
async def test_spaces_after_a_value_are_no_part_of_it() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(
            b"POST /a HTTP/1.1\r\nAuthorization: Bearer x \t\r\nIdempotency-Key: k \r\nX-Request-Id: r \r\n"
            b"Content-Length: 5 \r\nExpect: 100-continue \r\n\r\n"
        )
        assert (await talk.answer())[0] == 100
        talk.writer.write(b"hello")
        assert (await talk.answer())[0] == 200
    seen = house.seen[0]
    assert (seen.authorization, seen.idempotency_key, seen.request_id) == ("Bearer x", "k", "r")
    assert ("idempotency-key", "k") in seen.wire.headers()


@on_uvloop
async def test_chunks_in_http_1_0_are_the_last_thing_on_a_connection() -> None:
    """Proxies disagree about where such a request ends."""
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(
            b"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET
        )
        told = await talk.everything()
    assert (re.findall(rb"HTTP/1.1 (\d+)", told), len(house.seen)) == ([b"200"], 1)


@on_uvloop
async def test_who_speaks_http_1_0_is_not_told_to_go_on() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"POST /a HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhell")
        await until(lambda: bool(house.seen))
        talk.writer.write(b"o")
        assert (await talk.everything()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("endless", [b"0\r\nX-Trailer: ", b"1;extension="], ids=["trailer", "extension"])
@on_uvloop
async def test_what_goes_on_for_ever_around_a_body_is_refused(endless: bytes) -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n" + endless)
        for _ in range(16):
            talk.writer.write(b"x" * 65_536)
            await asyncio.sleep(0)
        async with asyncio.timeout(WITHIN_S):
            assert parse_head(await talk.reader.readuntil(b"\r\n\r\n"))[0] == 413


@pytest.mark.parametrize("value", ["a\r\nx-b: c", "a\nx-b: c", "a\rx-b: c", "a\r"])
def test_no_header_of_an_answer_contains_a_line_break(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        whole(Answer(200, [("x-a", value)], b""), "", closes=False, is_head=False)


@on_uvloop
async def test_who_leaves_in_the_middle_of_a_body_leaves_nothing_behind() -> None:
    """Not even until the collector comes, which is rarely."""
    gc.collect()
    gc.disable()
    try:
        before = _connections_in_memory()
        house = House()
        async with talking(house) as (_, connect):
            talk = await connect()
            talk.writer.write(b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nab")
            await until(lambda: bool(house.seen))
            house.seen.clear()
            talk.writer.transport.abort()
            await until(lambda: _connections_in_memory() == before)
    finally:
        gc.enable()


def _connections_in_memory() -> int:
    return sum(isinstance(each, connections.Connection) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (1_024, 4_096, 4_096),
        (1_024, 2**30, 2 * CONNECTIONS_MAX),
        (2**20, 2**20, 2**20),
        (256, RLIM_INFINITY, 2 * CONNECTIONS_MAX),
        (RLIM_INFINITY, RLIM_INFINITY, RLIM_INFINITY),
    ],
)
def test_as_many_files_may_be_open_as_connections_need(soft: int, hard: int, allowed: int) -> None:
    assert open_files(soft, hard) == allowed


@on_uvloop
async def test_what_is_known_by_heart_keeps_its_place_among_the_answers_and_its_failure_ends_the_connection() -> None:
    house = House()
    house.gate.clear()

    def at_once(request: Request) -> Answer | None:
        if request.path == "/defect":
            raise RuntimeError("defect")
        return Answer(200, [], b"at once") if request.path == "/known" else None

    async with talking(house) as (front, connect):
        front.answer_at_once = at_once
        talk = await connect()
        known, defect = GET.replace(b"/a?b=c", b"/known"), GET.replace(b"/a?b=c", b"/defect")
        talk.writer.write(known + GET + known + defect + known)
        assert (await talk.answer())[2] == b"at once"
        house.gate.set()
        assert b'"path":"/a"' in (await talk.answer())[2]
        assert (await talk.answer())[2] == b"at once"
        assert await talk.everything() == b""
