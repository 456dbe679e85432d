"""The recipe for high availability, whole: nginx, two servers, two workers, Valkey with a replica and three sentinels,
PostgreSQL with a synchronous standby.

Buyers come through nginx as it is deployed, and try again as the storefront does: under the same key, after its pauses.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import httpx
import pytest
from http_calling import eventually
from http_serving import BUYER_SECRET
from http_tokens import buyer_token
from postgres_replica import Replicated, replicated
from processes import SERVICE_KEY, HoldfastProcess, WorkerProcess, serving
from test_deploy_files import answers, nginx

from holdfast.lab.load.engines import free_port
from quiet_time import QuietTime
from valkeys import running_sentinels

BUYERS = 16
# As in backoff.js and api.js.
FIRST_RETRY_S, MAX_RETRY_S = 0.7, 15.0
TRANSIENT = {"busy", "not_ready", "rate_limited", "outcome_unknown", "request_timeout", "internal_error"}
# Who is not served by then gives up.
PATIENCE_S = 60.0
SELLS_AGAIN_WITHIN_S = 5.0
SERVED_AT_LEAST = 0.9999
SALE = {
    "sale_id": "drop", "sku_id": "sku", "name": "Drop", "total_units": 1_000_000, "checkout": "cart",
    "price": {"amount": 4_999, "currency": "EUR"}, "payment": "external", "starts_at": "2020-01-01T00:00:00Z",
}  # fmt: skip


class Buyers:
    """They come all the time. Each puts one unit into the cart, and the shop confirms it once they have paid."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.sold: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self.gave_up: list[str] = []
        self.is_over = False
        self.last_at, self.longest_gap_s = monotonic(), 0.0

    async def come(self, name: str) -> None:
        number = 0
        while not self.is_over:
            await self._buy(f"{name}-{number}")
            number += 1

    async def _buy(self, buyer_id: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                bought = await self._answered(lambda: self.purchase(buyer_id))
                id_ = bought.json()["reservation_id"]
                await self._answered(lambda: self._client.post(f"/v1/reservations/{id_}/confirm"))
        except TimeoutError:
            self.gave_up.append(buyer_id)
            return
        self.sold[buyer_id] = id_
        self.longest_gap_s = max(self.longest_gap_s, monotonic() - self.last_at)
        self.last_at = monotonic()

    async def purchase(self, buyer_id: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {buyer_token(buyer_id)}", "Idempotency-Key": buyer_id}
        return await self._client.post("/v1/sales/drop/purchase", json={"quantity": 1}, headers=headers)

    async def _answered(self, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        for attempt in itertools.count():
            retry_after_s = 0.0
            try:
                answer = await ask()
                self.answers[str(answer.status_code)] += 1
                if answer.is_success:
                    return answer
                assert is_transient(answer), answer.text
                retry_after_s = float(answer.headers.get("Retry-After", 0))
            except httpx.TransportError:
                self.answers["none"] += 1
            pause_s = min(FIRST_RETRY_S * 2**attempt, MAX_RETRY_S) * (0.5 + random.random() / 2)
            await asyncio.sleep(max(retry_after_s, pause_s))
        raise AssertionError("unreachable")

    async def until(self, sold: int) -> None:
        async with asyncio.timeout(120):
            while len(self.sold) < sold:  # noqa: ASYNC110 - nothing tells how many there are
                await asyncio.sleep(0.01)


def is_transient(answer: httpx.Response) -> bool:
    if answer.headers["content-type"] == "application/problem+json":
        return answer.json()["reason"] in TRANSIENT
    return answer.status_code >= 500


class Site:
    def __init__(self, pair: Replicated, servers: list[HoldfastProcess], client: httpx.AsyncClient) -> None:
        self.pair, self.servers, self.client = pair, servers, client


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    with ExitStack() as stack:
        pair = stack.enter_context(replicated(directory, port=free_port()))
        pair.make_synchronous()
        valkey = stack.enter_context(running_sentinels(directory / "valkey"))
        settings = {
            "database_url": pair.urls_together, "redis_url": valkey.url, "redis_replicas_min": "1",
            "trusted_proxies": "127.0.0.1", "signing_key": "s" * 40, "buyer_secret": BUYER_SECRET,
            # All buyers have one address here.
            "rate_per_address": "0",
        }  # fmt: skip
        async with AsyncExitStack() as processes:
            servers = [
                await processes.enter_async_context(serving(directory / f"api-{number}", "--no-background", **settings))
                for number in range(2)
            ]
            for number in range(2):
                worker = WorkerProcess(directory / f"worker-{number}", **settings)
                processes.callback(worker.end)
                await worker.start()
            (directory / "nginx").mkdir()
            edge = stack.enter_context(nginx(directory / "nginx", *(server.port for server in servers)))
            eventually(lambda: answers(edge))
            headers = {"Authorization": f"Bearer {SERVICE_KEY}"}
            client = httpx.AsyncClient(
                base_url=edge.base_url, headers=headers, verify=False, timeout=30.0, trust_env=False
            )
            async with client:
                yield Site(pair, servers, client)


def promote(pair: Replicated) -> QuietTime:
    pair.primary.kill()
    pair.replica.sql("SELECT pg_promote()")
    return QuietTime()


@pytest.mark.slow
async def test_a_rolling_restart_and_a_failover_refuse_nobody_and_lose_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as place:
        created = await place.client.post("/v1/sales", json=SALE)
        assert created.status_code == 201, created.text
        buyers = Buyers(place.client)
        async with asyncio.TaskGroup() as coming:
            for number in range(BUYERS):
                coming.create_task(buyers.come(f"buyer-{number}"))
            await buyers.until(200)
            for server in place.servers:
                assert await server.stop() == 0
                await server.start()
                await buyers.until(len(buyers.sold) + 200)
            restarts, restart_gap_s = dict(buyers.answers), buyers.longest_gap_s
            buyers.longest_gap_s = 0.0
            since_promoted = await asyncio.to_thread(promote, place.pair)
            await buyers.until(len(buyers.sold) + 1)
            sold_again_s = since_promoted.seconds
            await buyers.until(len(buyers.sold) + 300)
            buyers.is_over = True
        print(f"rolling restart: {restarts}, longest gap {restart_gap_s:.2f} s")
        print(
            f"and failover: {dict(buyers.answers)}, gap {buyers.longest_gap_s:.2f} s, sold after {sold_again_s:.2f} s"
        )
        assert len(buyers.sold) / (len(buyers.sold) + len(buyers.gave_up)) >= SERVED_AT_LEAST
        assert sold_again_s < SELLS_AGAIN_WITHIN_S
        stored = place.pair.replica.sql("SELECT count(*) FROM reservations WHERE status = 'confirmed'")
        assert int(stored) >= len(buyers.sold)
        for buyer_id, reservation_id in list(buyers.sold.items())[:: max(len(buyers.sold) // 40, 1)]:
            assert (await buyers.purchase(buyer_id)).json()["reservation_id"] == reservation_id
        await until_stored(place)
        verified = await asyncio.to_thread(place.servers[0].run_command, "verify")
        assert verified.returncode == 0, verified.stdout


async def until_stored(place: Site) -> None:
    """Every journal entry is in the ledger that was promoted."""

    async def lag() -> int:
        answer = await place.client.get("/v1/ops/lag")
        return int(answer.json()["journal"]["items"])

    async with asyncio.timeout(60):
        while await lag():  # noqa: ASYNC110 - other processes do it
            await asyncio.sleep(0.1)
