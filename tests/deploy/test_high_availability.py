"""The recipe for high availability, whole: nginx, two servers, two workers, Valkey, PostgreSQL with a standby.

Buyers go through nginx as it is deployed, and try again under the same key, as the storefront does.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import httpx
import pytest
from http_calling import eventually
from postgres_replica import Replicated, replicated
from processes import SERVICE_KEY, HoldfastProcess, WorkerProcess, make_pool, serving
from test_deploy_files import answers, nginx

from holdfast.lab.load.engines import free_port
from quiet_time import QuietTime
from valkeys import running_valkey

CALLERS = 6
PAUSE_S = 0.05
TRIES_MAX = 400
SELLS_AGAIN_WITHIN_S = 5.0
KEYS = {"signing_key": "s" * 40, "buyer_secret": "b" * 40}


class Buyers:
    """They reserve all the time, and keep what they were promised."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.promised: dict[str, str] = {}
        self.tries: Counter[str] = Counter()
        self.refused: list[str] = []
        self.is_over = False
        self.last_at, self.longest_gap_s = monotonic(), 0.0

    async def buy(self, name: str) -> None:
        number = 0
        while not self.is_over:
            key, number = f"{name}-{number}", number + 1
            await self._buy(key)

    async def _buy(self, key: str) -> None:
        body = {"owner_id": key, "quantity": 1, "idempotency_key": key}
        for _ in range(TRIES_MAX):
            try:
                answer = await self._client.post("/v1/inventory/sku/reserve", json=body)
            except httpx.TransportError:
                self.tries["no answer"] += 1
                await asyncio.sleep(PAUSE_S)
                continue
            self.tries[str(answer.status_code)] += 1
            if answer.status_code == 200:
                self.promised[key] = answer.json()["reservation_id"]
                self.longest_gap_s = max(self.longest_gap_s, monotonic() - self.last_at)
                self.last_at = monotonic()
                return
            assert answer.status_code in (502, 503, 504), answer.text
            await asyncio.sleep(PAUSE_S)
        self.refused.append(key)

    async def until(self, promised: int) -> None:
        async with asyncio.timeout(60):
            while len(self.promised) < promised:  # noqa: ASYNC110 - nothing tells how many there are
                await asyncio.sleep(0.01)


class Site:
    def __init__(self, pair: Replicated, servers: list[HoldfastProcess], client: httpx.AsyncClient) -> None:
        self.pair, self.servers, self.client = pair, servers, client


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    with ExitStack() as stack:
        pair = stack.enter_context(replicated(directory, port=free_port()))
        pair.make_synchronous()
        valkey = stack.enter_context(running_valkey(directory / "valkey"))
        settings = {"database_url": pair.urls_together, "redis_url": valkey.url, "trusted_proxies": "127.0.0.1", **KEYS}
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
        await make_pool(place.client, 1_000_000)
        buyers = Buyers(place.client)
        async with asyncio.TaskGroup() as callers:
            for number in range(CALLERS):
                callers.create_task(buyers.buy(f"caller-{number}"))
            await buyers.until(100)
            for server in place.servers:
                assert await server.stop() == 0
                await server.start()
                await buyers.until(len(buyers.promised) + 50)
            restarts, restart_gap_s = dict(buyers.tries), buyers.longest_gap_s
            buyers.longest_gap_s = 0.0
            since_promoted = await asyncio.to_thread(promote, place.pair)
            await buyers.until(len(buyers.promised) + 1)
            sold_again_s = since_promoted.seconds
            await buyers.until(len(buyers.promised) + 100)
            buyers.is_over = True
        print(f"rolling restart: {restarts}, longest gap {restart_gap_s:.2f} s")
        print(f"and failover: {dict(buyers.tries)}, gap {buyers.longest_gap_s:.2f} s, sold after {sold_again_s:.2f} s")
        assert buyers.refused == []
        assert max(sold_again_s, restart_gap_s) < SELLS_AGAIN_WITHIN_S
        for key, reservation_id in list(buyers.promised.items())[:: max(len(buyers.promised) // 40, 1)]:
            body = {"owner_id": key, "quantity": 1, "idempotency_key": key}
            again = await place.client.post("/v1/inventory/sku/reserve", json=body)
            assert again.json()["reservation_id"] == reservation_id
        await until_stored(place, len(buyers.promised))
        verified = await asyncio.to_thread(place.servers[0].run_command, "verify")
        assert verified.returncode == 0, verified.stdout


async def until_stored(place: Site, reservations: int) -> None:
    """Every journal entry is in the ledger that was promoted: nothing that was promised is missing."""

    async def stored() -> int:
        return int(await asyncio.to_thread(place.pair.replica.sql, "SELECT count(*) FROM reservations"))

    async with asyncio.timeout(60):
        while await stored() < reservations:  # noqa: ASYNC110 - other processes do it
            await asyncio.sleep(0.1)
