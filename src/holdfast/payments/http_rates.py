"""Exchange rates from an HTTP service.

A response is cached for a few seconds, so a crowd costs one call. A response that cannot be trusted counts as no rate.
"""

import asyncio
import time
from decimal import Decimal

import aiohttp
import msgspec
from msgspec import Struct

from holdfast.domain.sale.rates import checked_rate
from holdfast.errors import Unavailable
from holdfast.payments.answer import open_session, read_answer

KEPT_S = 10.0
TIMEOUT_S = 2.0


class _Answer(Struct, frozen=True):
    rate: str | float


class HttpRates:
    """`GET {url}?base=EUR&currency=USD` answers `{"rate": "1.0842"}`, or 404 for a pair that is not traded."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._opened: aiohttp.ClientSession | None = None
        self._known: dict[tuple[str, str], tuple[float, Decimal | None]] = {}
        self._asking: dict[tuple[str, str], asyncio.Task[Decimal | None]] = {}

    async def rate(self, base: str, currency: str) -> Decimal | None:
        pair = (base, currency)
        kept = self._known.get(pair)
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        asking = self._asking.get(pair)
        if asking is None:
            asking = self._asking[pair] = asyncio.ensure_future(self._ask(pair))
            asking.add_done_callback(lambda _: self._asking.pop(pair, None))
        # A caller who leaves does not end the shared call of the others.
        return await asyncio.shield(asking)

    async def _ask(self, pair: tuple[str, str]) -> Decimal | None:
        found = await self._call(*pair)
        self._known[pair] = (time.monotonic(), found)
        return found

    async def _call(self, base: str, currency: str) -> Decimal | None:
        if self._opened is None:
            self._opened = open_session(self._timeout_s, aiohttp.TCPConnector(limit=8))
        try:
            calling = self._opened.get(self._url, params={"base": base, "currency": currency}, allow_redirects=False)
            async with calling as answer:
                content = await read_answer(answer)
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise Unavailable(f"the rate service did not answer: {exc!r}") from exc
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unavailable(f"the rate service answered {answer.status}")
        return _read(content)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


def _read(content: bytes) -> Decimal:
    try:
        return checked_rate(str(msgspec.json.decode(content, type=_Answer).rate))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as exc:
        raise Unavailable(f"the answer of the rate service cannot be read: {exc}") from exc
