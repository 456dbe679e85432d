"""The ceilings: handlers that read the body and answer a constant: `python -m holdfast.bench.bare PORT asgi|front`.

Once as ASGI on granian, which is the most that a Python web application usually gets; and once on our own front, which
is the most that we could.
"""

import asyncio
import signal
import sys
from typing import Any

import uvloop

from holdfast.http.app import rest_collector
from holdfast.http.front.listening import Front
from holdfast.http.requests import Answer, Request

_BODY = b'{"status":"active"}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]


async def asgi(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


async def serve_asgi(port: int, stopping: asyncio.Event) -> None:
    from granian.constants import HTTPModes, Interfaces  # noqa: PLC0415 - an optional extra
    from granian.server.embed import Server  # noqa: PLC0415 - as above

    server = Server(
        asgi, port=port, interface=Interfaces.ASGINL, http=HTTPModes.http1, websockets=False, backlog=4096,
        backpressure=16_384, log_enabled=False,
    )  # fmt: skip
    serving = asyncio.create_task(server.serve())
    await stopping.wait()
    server.stop()  # type: ignore[no-untyped-call]
    await serving


async def answer(request: Request) -> Answer:
    await request.wire.read()
    return Answer(200, [("content-type", "application/json")], _BODY)


async def serve_front(port: int, stopping: asyncio.Event) -> None:
    front = Front(answer)
    await front.listen("127.0.0.1", port)
    await stopping.wait()
    front.abort()


async def serve(port: int, kind: str) -> None:
    rest_collector()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await (serve_asgi if kind == "asgi" else serve_front)(port, stopping)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
