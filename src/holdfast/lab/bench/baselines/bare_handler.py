"""The upper bound: a handler that reads the body and returns a constant, on granian configured like our server.

Available as ASGI, the usual kind of bare handler, and as RSGI, which our server uses: `python -m
holdfast.lab.bench.baselines.bare_handler PORT asgi|rsgi`.
"""

import asyncio
import signal
import sys
from typing import Any

import uvloop
from granian.constants import Interfaces

from holdfast.http.server.granian_server import build_server
from holdfast.runtime.garbage import tune_gc

_BODY = b'{"status":"active"}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]


async def asgi(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


class Rsgi:
    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        await protocol()
        protocol.response_bytes(200, [("content-type", "application/json")], _BODY)


async def serve(port: int, interface: str) -> None:
    tune_gc()
    is_asgi = interface == "asgi"
    server = build_server(
        asgi if is_asgi else Rsgi(), "127.0.0.1", port, Interfaces.ASGINL if is_asgi else Interfaces.RSGI
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    await server.serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
