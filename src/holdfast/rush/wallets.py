"""Money for those who pay from a wallet, before the doors open; too little of it for those who are to be declined."""

import asyncio
from collections.abc import Iterable
from time import monotonic

import msgspec

from holdfast.errors import Unavailable
from holdfast.rush.wire import Wire
from holdfast.rush.wishes import Answer, Ask, Step

_RETRIES = 30
_RETRY_S = 0.5
AT_ONCE = 64


def purse(price: int, quantity: int, *, is_declined: bool) -> int:
    """Enough for what they want; or a little less than one unit costs."""
    return price - 1 if is_declined else price * quantity


async def credit_all(wire: Wire, service_key: str, currency: str, purses: Iterable[tuple[str, int]]) -> int:
    """Each once, whatever has to be asked again. Gives how many got money."""
    waiting = iter(purses)
    header = f"Authorization: Bearer {service_key}\r\nContent-Type: application/json\r\n".encode()

    async def fill() -> int:
        filled = 0
        for buyer_id, amount in waiting:
            if amount > 0:
                body = msgspec.json.encode({"amount": amount, "currency": currency, "idempotency_key": "rush"})
                await _insist(wire, Ask(Step.CREDIT, "POST", f"/v1/wallets/{buyer_id}/credit", header, body))
                filled += 1
        return filled

    return sum(await asyncio.gather(*(fill() for _ in range(AT_ONCE))))


async def _insist(wire: Wire, ask: Ask) -> None:
    for _ in range(_RETRIES):
        heard: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        wire.send(ask, monotonic(), heard.set_result)
        answer = await heard
        if answer.status == 200:
            return
        if answer.status not in (0, 429, 503):
            raise Unavailable(f"a wallet could not be filled: {answer.status} {answer.body.decode(errors='replace')}")
        await asyncio.sleep(answer.retry_after_s or _RETRY_S)
    raise Unavailable("wallets could not be filled: the server does not answer")
