"""The sandbox as a process: the front of our own server, with its service behind it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvloop
from msgspec import Struct

from holdfast.http.front.listening import Front
from holdfast.http.problems import Problem
from holdfast.http.requests import Answer, CallerGone, Request
from holdfast.http.server import check_port
from holdfast.payments.sandbox.books import Books
from holdfast.payments.sandbox.entry import Entry
from holdfast.payments.sandbox.faults import FaultPlan, Faults
from holdfast.payments.sandbox.service import Reply, Service
from holdfast.payments.sandbox.store import Store
from holdfast.payments.sandbox.webhooks import WebhookSender, webhook_id

# A client that waits for a reply that is lost on purpose does not keep the process from ending.
FINISH_S = 1.0


class SandboxOptions(Struct, frozen=True):
    data: Path | None = None
    webhook_url: str = ""
    webhook_secret: str = ""


def answering(service: Service) -> Callable[[Request], Awaitable[Answer | None]]:
    async def answer(request: Request) -> Answer | None:
        try:
            body = b"" if request.method == "GET" else await request.wire.read()
        except Problem:
            body = b""  # Too long for anything that is asked here.
        except CallerGone:
            return None
        outcome = await service.answer(request.method, request.path, request.query, body)
        if isinstance(outcome, Reply):
            return Answer(outcome.status, [("content-type", outcome.content_type)], outcome.body)
        if outcome.is_silent:
            await request.wire.gone()
        return None  # The connection is closed without an answer.

    return answer


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
        front = Front(answering(service))
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        await front.listen(host, port)
        greet()
        await stopping.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                await front.stop()
        front.abort()
