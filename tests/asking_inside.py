"""A request put to the application itself, for faults that can only be injected from inside its process."""

import asyncio

from holdfast.bootstrap import House
from holdfast.http.patrol import Patrol
from holdfast.http.requests import Answer, Headers, Request
from holdfast.http.slow_lane import SlowLane


class NoWire:
    """A caller who waits for ever."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def headers(self) -> Headers:
        return self._headers

    async def read(self) -> bytes:
        return b""

    async def gone(self) -> None:
        await asyncio.Event().wait()


async def ask_inside(house: House, method: str, path: str, body: bytes = b"", query: str = "") -> Answer:
    key = f"Bearer {house.settings.service_key_text()}"
    request = Request(method, path, query, NoWire([]), "id", body=body, authorization=key)
    return await SlowLane(house, Patrol()).answer(request)
