"""The buyers: the same arrivals and the same clicks at Holdfast and at every simple shop.

A buyer clicks once, or twice at the same moment, and again half a second after an error or a missing response. At
Holdfast a click carries the purchase's idempotency key, as the storefront's does; the simple shops have no such key.
"""

import asyncio
import random
import sqlite3
from collections import Counter, deque
from time import monotonic

import msgspec
from redis.exceptions import RedisError

from holdfast.errors import Unavailable
from holdfast.lab.load.buyer_tokens import BuyerTokens, authorization
from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.http import JSON, Request, Response
from holdfast.lab.simulation.server import SALE
from holdfast.lab.simulation.shops.shop import Shop

CLICK_AGAIN_S = 0.5
PATIENCE_S = 60.0
_BODY = b'{"quantity":1}'
_RECENT = 1_000


def arrivals(users: int, seconds: float, seed: int) -> list[float]:
    """Sorted arrival times, in seconds from the start."""
    chance = random.Random(seed)
    return sorted(chance.uniform(0, seconds) for _ in range(users))


class Tally:
    """The responses that Holdfast's buyers got."""

    def __init__(self) -> None:
        self.arrived = self.clicks = self.answered = self.replayed = self.refused = self.retried = self.gave_up = 0
        self.reserved: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.recent_ms: deque[float] = deque(maxlen=_RECENT)


class HoldfastBuyers:
    def __init__(self, client: LoadClient, tokens: BuyerTokens, tally: Tally) -> None:
        self._client, self._tokens, self._tally = client, tokens, tally

    async def click(self, buyer_id: str) -> None:
        tally, began = self._tally, monotonic()
        headers = authorization(self._tokens.sign(buyer_id)) + JSON + b"Idempotency-Key: %b\r\n" % buyer_id.encode()
        request = Request("purchase", "POST", f"/v1/sales/{SALE}/purchase", headers, _BODY)
        tally.clicks += 1
        while monotonic() - began < PATIENCE_S:
            response = await self._send(request)
            if not response.should_retry:
                tally.recent_ms.append((monotonic() - began) * 1_000)
                self._note(buyer_id, response)
                return
            tally.retried += 1
            await asyncio.sleep(response.retry_after_s or CLICK_AGAIN_S)
        tally.gave_up += 1

    async def _send(self, request: Request) -> Response:
        try:
            return await self._client.request(request)
        except Unavailable:
            return Response(0)

    def _note(self, buyer_id: str, response: Response) -> None:
        tally = self._tally
        tally.answered += 1
        if response.status == 201:
            tally.reserved.add(buyer_id)
        elif response.status == 200:
            # The response to an earlier click, possibly one whose response was lost.
            tally.replayed += 1
            tally.reserved.add(buyer_id)
        else:
            tally.refused += 1
            tally.reasons[_reason(response)] += 1


def _reason(response: Response) -> str:
    try:
        return str(msgspec.json.decode(response.body)["reason"])
    except (ValueError, KeyError, TypeError):
        return str(response.status)


async def click_at_shop(shop: Shop, buyer_id: str) -> None:
    began = monotonic()
    while monotonic() - began < PATIENCE_S:
        try:
            await shop.buy(buyer_id)
        except (RedisError, sqlite3.Error, OSError, RuntimeError):  # uvloop: the connection broke.
            shop.errors += 1
            await asyncio.sleep(CLICK_AGAIN_S)
        else:
            return
