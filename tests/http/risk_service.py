"""A risk service and a siteverify service on a real socket, which answer as a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class FakeService:
    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.answer: object = {"verdict": "allow"}
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        # Set: answers. Cleared: hangs until it is set again.
        self.is_answering = asyncio.Event()
        self.is_answering.set()

    async def handle(self, request: web.Request) -> web.Response:
        is_json = request.content_type == "application/json"
        self.asked.append(await request.json() if is_json else dict(await request.post()))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        await self.is_answering.wait()
        if isinstance(self.answer, str):
            return web.Response(status=self.status, text=self.answer)
        return web.json_response(self.answer, status=self.status)


@asynccontextmanager
async def run_service() -> AsyncIterator[FakeService]:
    service = FakeService()
    app = web.Application()
    app.router.add_post("/check", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [address] = runner.addresses
    service.url = f"http://127.0.0.1:{address[1]}/check"
    try:
        yield service
    finally:
        service.is_answering.set()
        await runner.cleanup()
