"""The simulation as a process: granian running its service."""

import asyncio
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from granian.constants import Interfaces

from holdfast.http.server.granian_server import build_server
from holdfast.lab.simulation.service import EVENTS, SAFE, Service, is_local
from holdfast.lab.simulation.simulator import Simulator
from holdfast.lab.simulation.stores import Stores

HOST = "127.0.0.1"
BODY_MAX_BYTES = 4_096
FRAME_EVERY_S = 0.2
# An endless stream would delay the shutdown; EventSource reconnects on its own.
STREAM_S, STREAM_JITTER_S = 50.0, 10.0
STREAMS_MAX = 16
FINISH_S = 1.0


class RsgiSimulation:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams = 0

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        headers = {name: scope.headers.get(name) for name in ("host", "sec-fetch-site", "content-length")}
        if scope.path == EVENTS and scope.method == "GET" and is_local(headers["host"]):
            await self._stream(protocol)
            return
        try:
            body = await _read(scope.method, headers["content-length"], protocol)
        except ValueError:
            protocol.response_empty(413, SAFE)
            return
        reply = await self._service.answer(scope.method, scope.path, headers, body)
        more = [("location", reply.location)] if reply.location else [("content-type", reply.media_type)]
        protocol.response_bytes(reply.status, [*SAFE, *more], b"" if scope.method == "HEAD" else reply.body)

    async def _stream(self, protocol: Any) -> None:
        if self._streams >= STREAMS_MAX:
            protocol.response_empty(503, [*SAFE, ("retry-after", "5")])
            return
        self._streams += 1
        try:
            await self._send_frames(protocol)
        finally:
            self._streams -= 1

    async def _send_frames(self, protocol: Any) -> None:
        transport = protocol.response_stream(200, [*SAFE, ("content-type", "text/event-stream")])
        gone = asyncio.ensure_future(protocol.client_disconnect())
        until = monotonic() + STREAM_S + random.uniform(0, STREAM_JITTER_S)
        # Granian raises it for a broken connection.
        with suppress(RuntimeError):
            await transport.send_bytes(b"retry: 500\n\n")
            sent = b""
            while monotonic() < until and not gone.done():
                frame = self._service.frame()
                if frame != sent:
                    await transport.send_bytes(b"data: %b\n\n" % frame)
                    sent = frame
                await asyncio.wait([gone], timeout=FRAME_EVERY_S)
        gone.cancel()


async def _read(method: str, length: str | None, protocol: Any) -> bytes:
    if method in ("GET", "HEAD", "DELETE"):
        return b""
    if length is None or not length.isdigit() or int(length) > BODY_MAX_BYTES:
        raise ValueError("a body needs a length, and a small one")
    body: bytes = await protocol()
    return body


async def serve(port: int, demo_url: str, ending: asyncio.Event, greet: Callable[[], None]) -> None:
    """Serves until SIGTERM, SIGINT or `ending`."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    simulator = Simulator(Stores(), demo_url)
    server = build_server(RsgiSimulation(Service(simulator)), HOST, port, Interfaces.RSGI)
    serving = asyncio.create_task(server.serve())
    greet()
    try:
        await asyncio.wait([serving, asyncio.create_task(ending.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await simulator.close()
        server.stop()  # type: ignore[no-untyped-call]
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                await serving
