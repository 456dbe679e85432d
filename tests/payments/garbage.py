"""A server with the same invalid answer to everything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def _http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body)


ANSWERS = {
    "not_http": b"220 smtp.example.com ready\r\n",
    "nothing": b"",
    "cut_short": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "not_json": _http(200, b"<html>Welcome to the hotel's network</html>"),
    "not_text": _http(200, b'{"key": "\xff\xfe"}'),
    "a_list": _http(200, b"[]"),
    "an_empty_object": _http(200, b"{}"),
    "an_unknown_state": _http(200, b'{"key": "k", "state": "perhaps", "id": 7, "status": 7, "amount": "much"}'),
    "another_payment": _http(
        200,
        b'{"key": "other", "state": "captured", "reference": "r", "amount": 1, "is_done": 1, "id": "pi_9",'
        b' "status": "succeeded", "metadata": {"holdfast_key": "other"}, "data": 5}',
    ),
    "an_error_page": _http(502, b"<html>Bad gateway</html>"),
    "a_bare_503": _http(503, b"Service unavailable"),
    "a_redirect": _http(302, b""),
    "a_redirect_to_nobody": b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
}


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
