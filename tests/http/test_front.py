"""The front by itself: HTTP/1.1 as clients speak it."""

import asyncio
import re

import msgspec
import pytest
from http_front import GET, WITHIN_S, House, on_uvloop, talking, until
from http_sockets import parse_head

from holdfast.http.front import connection as connections
from holdfast.http.front import listening
from holdfast.http.front.answering import whole
from holdfast.http.front.connection import MAX_AHEAD, TOO_FAR_AHEAD
from holdfast.http.requests import Answer, Request


@on_uvloop
async def test_a_request_arrives_as_it_was_sent_however_it_was_cut() -> None:
    house, sent = House(), b"POST /a%20b/c?d=%41 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    async with talking(house) as (_, connect):
        for size in (1, 2, 7, len(sent)):
            talk = await connect()
            for start in range(0, len(sent), size):
                talk.writer.write(sent[start : start + size])
                await talk.writer.drain()
                await asyncio.sleep(0)
            status, headers, body = await talk.answer()
            assert (status, "date" in headers) == (200, True)
            assert msgspec.json.decode(body) == {"method": "POST", "path": "/a b/c", "query": "d=%41", "body": "hello"}


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"http://shop.example/a/b?c=d", "/a/b", "c=d"),
        (b"http://shop.example", "/", ""),
        (b"/caf%C3%A9", "/café", ""),
        (b"/%ff", "/\ufffd", ""),
        (b"/a?b?c", "/a", "b?c"),
    ],
)
@on_uvloop
async def test_paths(target: bytes, path: str, query: str) -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
        await talk.answer()
    assert (house.seen[0].path, house.seen[0].query) == (path, query)


@on_uvloop
async def test_requests_that_follow_without_waiting_are_answered_in_their_order() -> None:
    house, many = House(), 3 * MAX_AHEAD
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(many)))
        answers = [msgspec.json.decode((await talk.answer())[2])["path"] for _ in range(many)]
    assert answers == [f"/{n}" for n in range(many)]


@on_uvloop
async def test_only_so_many_may_run_ahead() -> None:
    house = House()
    house.gate.clear()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(GET * (TOO_FAR_AHEAD + 2))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await talk.answer()
        assert len(house.seen) == 1


@on_uvloop
async def test_head_has_the_length_of_the_answer_and_not_the_answer() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        head, _, body = (await talk.everything()).partition(b"\r\n\r\n")
        assert int(parse_head(head)[1]["content-length"]) > 10
        assert body == b""


@on_uvloop
async def test_an_answer_without_content_has_no_length() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        head, _, body = (await talk.everything()).partition(b"\r\n\r\n")
        status, headers = parse_head(head)
        assert (status, "content-length" in headers, body) == (204, False, b"")


@on_uvloop
async def test_who_speaks_http_1_0_is_answered_and_kept_only_if_asked_for() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        status, headers, _ = await talk.answer()
        assert (status, headers["connection"]) == (200, "keep-alive")
        talk.writer.write(b"GET /stream HTTP/1.0\r\n\r\n")
        head, _, body = (await talk.everything()).partition(b"\r\n\r\n")
        assert "transfer-encoding" not in parse_head(head)[1]
        assert body == b"one two three"


@on_uvloop
async def test_a_stream_comes_in_chunks_and_the_connection_goes_on() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        async with asyncio.timeout(WITHIN_S):
            _, headers = parse_head(await talk.reader.readuntil(b"\r\n\r\n"))
            assert headers["transfer-encoding"] == "chunked"
            chunks = await talk.reader.readuntil(b"0\r\n\r\n")
        assert chunks == b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"
        assert (await talk.answer())[0] == 200


@on_uvloop
async def test_who_closed_their_half_is_answered_all_the_same() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(GET * 3)
        talk.writer.write_eof()
        assert (await talk.everything()).count(b"HTTP/1.1 200 OK") == 3


@on_uvloop
async def test_who_left_is_noticed() -> None:
    house = House()
    house.gate.clear()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(GET)
        await until(lambda: bool(house.seen))
        talk.writer.close()
        async with asyncio.timeout(WITHIN_S):
            await house.seen[0].wire.gone()


@on_uvloop
async def test_where_nobody_is_left_to_tell_the_connection_is_closed() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /nobody HTTP/1.1\r\nHost: h\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await talk.answer()


@on_uvloop
async def test_no_header_can_smuggle_another() -> None:
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /broken HTTP/1.1\r\nHost: h\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await talk.answer()


@on_uvloop
async def test_what_follows_a_body_in_chunks_is_no_header() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        talk.writer.write(b"0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n")
        assert (await talk.answer())[0] == 200
    assert "x-forwarded-for" not in dict(house.seen[0].wire.headers())


@on_uvloop
async def test_an_upgrade_is_answered_as_http_and_nothing_after_it_is() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + GET)
        told = await talk.everything()
    assert (told.count(b"HTTP/1.1 "), told.startswith(b"HTTP/1.1 200"), len(house.seen)) == (1, True, 1)


@on_uvloop
async def test_nonsense_after_a_request_is_told_so_after_its_answer() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(GET * 2 + b"\x00\x01nonsense\r\n\r\n" + GET)
        told = await talk.everything()
    assert re.findall(rb"HTTP/1.1 (\d+)", told) == [b"200", b"200", b"400"]


@on_uvloop
async def test_a_body_that_turns_into_nonsense_is_told_so_at_once() -> None:
    house = House()
    async with talking(house) as (_, connect):
        talk = await connect()
        talk.writer.write(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await until(lambda: bool(house.seen))
        talk.writer.write(b"nonsense")
        told = await talk.everything()
    assert re.findall(rb"HTTP/1.1 (\d+)", told) == [b"400"]


@on_uvloop
async def test_more_connections_than_there_may_be_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "CONNECTIONS_MAX", 2)
    async with talking(House()) as (_, connect):
        first, second = await connect(), await connect()
        for talk in (first, second):
            talk.writer.write(GET)
            assert (await talk.answer())[0] == 200
        told = await (await connect()).everything()
        assert told.startswith(b"HTTP/1.1 503 ")
        first.writer.write(GET)
        assert (await first.answer())[0] == 200


@on_uvloop
async def test_who_reads_nothing_is_not_answered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers fill what the system keeps for it; then it is waited for, and in the end closed."""
    monkeypatch.setattr(connections, "UNREAD_S", 0.5)
    long, given = Answer(200, [], b"x" * 1_000_000), 0

    async def answer(_request: Request) -> Answer:
        nonlocal given
        given += 1
        return long

    house = House()
    house.answer = answer  # type: ignore[method-assign, assignment]
    async with talking(house) as (front, connect):
        talk = await connect()
        talk.reader._transport.pause_reading()  # type: ignore[attr-defined]
        talk.writer.write(GET * 200)
        await until(lambda: given > 0 and not front._connections)
        assert given < 100


@on_uvloop
async def test_a_connection_that_rests_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REST_S", 0.5)
    async with talking(House()) as (_, connect):
        talk = await connect()
        talk.writer.write(GET)
        assert (await talk.answer())[0] == 200
        assert await talk.everything() == b""


@on_uvloop
async def test_a_front_that_stops_answers_what_was_asked_and_closes_what_rests() -> None:
    house = House()
    async with talking(house) as (front, connect):
        resting, asking = await connect(), await connect()
        resting.writer.write(GET)
        await resting.answer()
        house.gate.clear()
        asking.writer.write(GET)
        await until(lambda: len(house.seen) == 2)
        stopping = asyncio.create_task(front.stop())
        assert await resting.everything() == b""
        assert not stopping.done()
        house.gate.set()
        status, headers, _ = await asking.answer()
        assert (status, headers["connection"]) == (200, "close")
        async with asyncio.timeout(WITHIN_S):
            await stopping


def test_a_length_is_told_once_even_if_the_answer_brings_its_own() -> None:
    sent = whole(Answer(200, [("content-length", "3")], b"abc"), "", closes=False, is_head=False)
    assert sent.count(b"content-length: 3") == 1
