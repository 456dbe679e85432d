"""The sandbox as a process: granian in front of its service."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop
from granian.constants import Interfaces
from msgspec import Struct

from holdfast.http.server import build_server, check_port
from holdfast.payments.sandbox.books import Books
from holdfast.payments.sandbox.entry import Entry
from holdfast.payments.sandbox.faults import FaultPlan, Faults
from holdfast.payments.sandbox.service import LostReply, Reply, Service
from holdfast.payments.sandbox.store import Store
from holdfast.payments.sandbox.webhooks import WebhookSender, webhook_id

BODY_MAX_BYTES = 64 * 1024
# A client that waits for a reply that is lost on purpose does not keep the process from ending.
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
        except RuntimeError:  # What granian raises for a connection that broke off.
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
    # An answer that promises more than it has: the server closes the connection in the middle of it.
    transport = protocol.response_stream(200, [("content-length", "1000")])
    await transport.send_bytes(b" ")


@asynccontextmanager
async def open_service(options: SandboxOptions) -> AsyncIterator[Service]:
    store = Store(options.data)
    sender = WebhookSender(options.webhook_url, options.webhook_secret) if options.webhook_url else None

    def watch(entry: Entry) -> None:
        if sender is not None:
            sender.post(entry, twice=service.plan.doubles_webhook(webhook_id(entry), entry.charge.method))

    service = Service(Books(store, watch), FaultPlan(Faults()))
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
