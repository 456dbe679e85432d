"""The demo's simulated buyers: `python -m holdfast.lab.demo.buyers`, with its task on stdin. Exits when stdin closes.

They arrive slightly faster than they are called. So a queue forms, a visitor who opens the page within the first half
minute gets a unit, and the last buyers find everything sold.
"""

import asyncio
import sys
from contextlib import suppress

import httpx
import msgspec
from msgspec import Struct

from holdfast.lab.rush.run import Options, run_rush
from holdfast.lab.rush.server.target import Target
from holdfast.lab.scenarios.scenario import Arrival, Crowd, Scenario, Shape

CONNECTIONS = 64
READY_EVERY_S = 0.2
# Some leave, some are slow, some cannot pay; the units they release go to buyers behind them.
_PEOPLE = Crowd(
    leave=0.03,
    come_back=0.5,
    vanish=0.02,
    leave_after_seconds=8,
    double_clicks=0.1,
    lost_replies=0.03,
    refreshes=0.1,
    abandon=0.04,
    give_back=0.05,
    extend=0.1,
    declines=0.04,
    second_card=0.5,
    think_seconds=4,
    patience_seconds=120,
)


class Call(Struct, frozen=True):
    url: str
    sale_id: str
    buyers: int
    seconds: float
    seed: int
    buyer_secret: str
    service_key: str
    buyer_claims: dict[str, str] = {}


async def run(call: Call) -> None:
    await _until_ready(call.url)
    arrival = Arrival(shape=Shape.POISSON, over_seconds=call.seconds)
    scenario = Scenario(name="demo", arrival=arrival, crowd=_PEOPLE)
    options = Options(
        scenario, call.buyers, 1, call.seed, connections=CONNECTIONS, sale_id=call.sale_id, checks=False, is_nice=True
    )
    await run_rush(Target(call.url, call.buyer_secret, call.service_key, buyer_claims=call.buyer_claims), options)


async def _until_ready(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        while True:
            with suppress(httpx.TransportError):
                if (await client.get("/healthz/ready")).status_code == 200:
                    return
            await asyncio.sleep(READY_EVERY_S)


async def main() -> None:
    call = msgspec.json.decode(await asyncio.to_thread(sys.stdin.buffer.readline), type=Call)
    running = asyncio.create_task(run(call))
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
    await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


if __name__ == "__main__":
    asyncio.run(main())
