"""The sandbox as a process: granian running its service."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop
from granian.constants import Interfaces
from msgspec import Struct

from holdfast.http.server.address import check_port
from holdfast.http.server.granian_server import build_server
from holdfast.lab.sandbox.entry import Entry
from holdfast.lab.sandbox.faults import FaultPlan, Faults
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.sandbox.service import LostReply, Reply, Service
from holdfast.lab.sandbox.store import Store
from holdfast.lab.sandbox.webhooks import WebhookSender, webhook_id

BODY_MAX_BYTES = 64 * 1024
# A client that waits for a deliberately lost reply must not delay the shutdown.
FINISH_S = 1.0


class SandboxOptions(Struct, frozen=True):
    data: Path | None = None
    webhook_url: str = ""
    webhook_secret: str = ""


class RsgiSandbox:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        try:
            body = await _read(scope, protocol)
        except RuntimeError:  # granian: the connection broke.
            return
        outcome = await self._service.answer(scope.method, scope.path, scope.query_string, body)
        if isinstance(outcome, Reply):
            protocol.response_bytes(outcome.status, [("content-type", outcome.content_type)], outcome.body)
        else:
            await _lose(outcome, protocol)


async def _read(scope: Any, protocol: Any) -> bytes:
    if scope.method == "GET" or int(scope.headers.get("content-length") or 0) > BODY_MAX_BYTES:
        return b""
    body: bytes = await protocol()
    return body


async def _lose(lost: LostReply, protocol: Any) -> None:
    if lost.is_silent:
        await protocol.client_disconnect()
    # A truncated response: the server closes the connection in the middle of it.
    transport = protocol.response_stream(200, [("content-length", "1000")])
    await transport.send_bytes(b" ")


@asynccontextmanager
async def open_service(options: SandboxOptions) -> AsyncIterator[Service]:
    store = Store(options.data)
    sender = WebhookSender(options.webhook_url, options.webhook_secret) if options.webhook_url else None

    def watch(entry: Entry) -> None:
        if sender is not None:
            sender.post(entry, twice=service.plan.doubles_webhook(webhook_id(entry), entry.charge.method))

    service = Service(SandboxLedger(store, watch), FaultPlan(Faults()))
    try:
        yield service
    finally:
        if sender is not None:
            await sender.close()
        store.close()


def serve_sandbox(options: SandboxOptions, host: str, port: int, greet: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    check_port(host, port)
    uvloop.run(_serve(options, host, port, greet))


async def _serve(options: SandboxOptions, host: str, port: int, greet: Callable[[], None]) -> None:
    async with open_service(options) as service:
        server = build_server(RsgiSandbox(service), host, port, Interfaces.RSGI)
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        serving = asyncio.create_task(server.serve())
        greet()
        await asyncio.wait([serving, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        server.stop()  # type: ignore[no-untyped-call]
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                await serving
