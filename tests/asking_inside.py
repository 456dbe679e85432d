"""A request put to the application itself, for faults that can only be injected from inside its process."""

import asyncio
from typing import ClassVar

from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, ClientDisconnected, Headers, Request
from holdfast.http.server.app import App


class NoConnection:
    """A client that waits for ever."""

    BROKEN: ClassVar[type[Exception]] = ClientDisconnected

    def __init__(self, headers: Headers, peer: str = "") -> None:
        self._headers = headers
        self._peer = peer

    def headers(self) -> Headers:
        return self._headers

    def header(self, name: str) -> str | None:
        return next((value for given, value in self._headers if given == name), None)

    def header_lines(self, name: str) -> list[str]:
        return [value for given, value in self._headers if given == name]

    def peer(self) -> str:
        return self._peer

    async def read(self) -> bytes:
        return b""

    async def wait_disconnected(self) -> None:
        await asyncio.Event().wait()


async def ask_inside(
    services: Services, method: str, path: str, body: bytes = b"", query: str = "", headers: Headers | None = None
) -> Answer:
    key = f"Bearer {services.settings.service_key_text()}"
    request = Request(method, path, query, NoConnection(headers or []), "id", body=body, authorization=key)
    app = App(services)
    answer = await app.answer(request)
    await app.finish()
    assert answer is not None
    return answer
