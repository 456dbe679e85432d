"""A request put to the application itself, for faults that can only be injected from inside its process."""

import asyncio
from typing import ClassVar

from holdfast.bootstrap import House
from holdfast.http.patrol import Patrol
from holdfast.http.requests import Answer, CallerGone, Headers, Request
from holdfast.http.slow_lane import SlowLane


class NoWire:
    """A caller who waits for ever."""

    BROKEN: ClassVar[type[Exception]] = CallerGone

    def __init__(self, headers: Headers, peer: str = "") -> None:
        self._headers = headers
        self._peer = peer

    def headers(self) -> Headers:
        return self._headers

    def peer(self) -> str:
        return self._peer

    async def read(self) -> bytes:
        return b""

    async def gone(self) -> None:
        await asyncio.Event().wait()


async def ask_inside(house: House, method: str, path: str, body: bytes = b"", query: str = "") -> Answer:
    key = f"Bearer {house.settings.service_key_text()}"
    request = Request(method, path, query, NoWire([]), "id", body=body, authorization=key)
    return await SlowLane(house, Patrol()).answer(request)
