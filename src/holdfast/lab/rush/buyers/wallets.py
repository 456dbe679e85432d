"""Fills the wallets of buyers who pay from one; buyers whose payment should be declined get too little."""

import asyncio
from collections.abc import Iterable

import msgspec

from holdfast.errors import Unavailable
from holdfast.lab.load.buyer_tokens import authorization
from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.http import JSON, Request
from holdfast.lab.rush.buyers.actions import Step

_ATTEMPTS = 30
PARALLEL = 64


def wallet_amount(price: int, quantity: int, *, is_declined: bool) -> int:
    """Enough for the whole quantity, or slightly less than the price of one unit."""
    return price - 1 if is_declined else price * quantity


async def credit_all(client: LoadClient, service_key: str, currency: str, wallets: Iterable[tuple[str, int]]) -> int:
    """Credits each wallet once, however often a request is retried. Returns the number of credited wallets."""
    waiting, headers = iter(wallets), authorization(service_key) + JSON

    async def credit() -> int:
        credited = 0
        for buyer_id, amount in waiting:
            if amount > 0:
                body = msgspec.json.encode({"amount": amount, "currency": currency, "idempotency_key": "rush"})
                request = Request(Step.CREDIT, "POST", f"/v1/wallets/{buyer_id}/credit", headers, body)
                response = await client.request(request, attempts=_ATTEMPTS)
                if response.status != 200:
                    details = response.body.decode(errors="replace")
                    raise Unavailable(f"a wallet could not be credited: {response.status} {details}")
                credited += 1
        return credited

    return sum(await asyncio.gather(*(credit() for _ in range(PARALLEL))))
