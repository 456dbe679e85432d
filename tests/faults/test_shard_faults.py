"""A pool split over the nodes of a real Cluster, sold by two server processes, while servers die and nodes forget."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import HoldfastProcess, serving
from redis import RedisError

from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.shards import shard_names
from holdfast.gate.redis.encoding import Keys
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.splits import sums_of_splits
from ledger_snapshot import read_ledger_snapshot
from valkeys import ValkeyCluster, running_cluster

SKU, SHARDS, UNITS = "hot", 6, 60
NAMES = shard_names(SKU, SHARDS)
# What a buyer may hear while something is broken.
NOT_NOW = {"not_ready", "outcome_unknown", "busy"}
SOLD_WITHIN_S = 180.0
# Of the log of each server, and of what a buyer heard, in a failure.
LOGGED, HEARD = 200, 12


class Site:
    def __init__(self, cluster: ValkeyCluster, servers: list[HoldfastProcess], database: Database) -> None:
        self.cluster, self.servers, self.database = cluster, servers, database
        self.confirmed: set[str] = set()
        self.sold_out_at: list[int] = []
        self.nodes = {name: cluster.owner(Keys(name).pool) for name in NAMES}

    async def create(self) -> None:
        async with self.servers[0].client() as client:
            async with asyncio.timeout(SOLD_WITHIN_S):
                while (made := await self._put(client)).status_code == 503:  # noqa: ASYNC110 - it becomes ready
                    await asyncio.sleep(0.1)
            assert made.status_code == 200, made.text

    async def _put(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.put(f"/v1/inventory/{SKU}", json={"total_units": UNITS, "shards": SHARDS})

    def sold_in_redis(self) -> int:
        """A confirm is decided here before the ledger hears of it."""
        return sum(int(self.nodes[name].command("HGET", Keys(name).pool, "sold") or 0) for name in NAMES)

    async def sell_all(self, seed: int) -> Counter[str]:
        async with self.servers[0].client() as first, self.servers[1].client() as second:
            chance = random.Random(seed)
            buyers = [Buyer(self, (first, second), n, chance) for n in range(UNITS + 20)]
            tasks = [asyncio.create_task(buyer.buy()) for buyer in buyers]
            done, unfinished = await asyncio.wait(tasks, timeout=SOLD_WITHIN_S, return_when=asyncio.FIRST_EXCEPTION)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            told = Counter([task.result() for task in done])
            stuck = [buyer for buyer, task in zip(buyers, tasks, strict=True) if task in unfinished]
            if stuck:
                raise AssertionError(f"{told}, and {len(stuck)} did not finish:\n{await self.explain(stuck[0])}")
            return told

    async def check(self) -> None:
        """All is sold, nothing is on its way, and every shard adds up, in the ledger and in every check."""
        async with self.servers[1].client() as client, asyncio.timeout(60):
            while not (await self._report(client))["is_settled"]:  # noqa: ASYNC110 - other processes settle it
                await asyncio.sleep(0.1)
        of_sku = (await self.database.read(sums_of_splits))[SKU]
        assert (of_sku.total, of_sku.in_shards, of_sku.in_transfer) == (UNITS, UNITS, 0)
        sold: set[str] = set()
        for name in NAMES:
            snapshot = await read_ledger_snapshot(self.database, name)
            snapshot.check()
            sold |= {id_ for id_, r in snapshot.reservations.items() if r.status is Status.CONFIRMED}
        assert self.confirmed <= sold
        assert len(sold) == UNITS

    async def explain(self, buyer: "Buyer") -> str:
        """What a buyer heard last and has, and what the servers say of the pool and have logged."""
        rows = [
            row
            for name in NAMES
            for row in (await read_ledger_snapshot(self.database, name)).reservations.values()
            if row.owner_id == buyer.owner_id
        ]
        told = [f"{buyer.owner_id} heard:", *buyer.heard, f"in the ledger: {rows}"]
        for server in self.servers:
            async with server.client() as client:
                for method, path in (("GET", "/v1/ops/pools"), ("POST", "/v1/ops/reconcile")):
                    try:
                        answer = await client.request(method, path)
                        told.append(f"{method} {path}: {answer.status_code} {answer.text}")
                    except httpx.TransportError as exc:
                        told.append(f"{method} {path}: {exc!r}")
            told.append("log:\n" + "\n".join(server.log.read_text(errors="replace").splitlines()[-LOGGED:]))
        return "\n".join(told)

    async def _report(self, client: httpx.AsyncClient) -> dict[str, Any]:
        answer = await client.post("/v1/ops/reconcile")
        if answer.status_code != 200:
            return {"is_settled": False}
        [report] = [r for r in answer.json()["data"] if r["sku_id"] == SKU]
        is_settled = report["ok"] and not report["in_transfer"] and not report["journal_lag"]
        return {**report, "is_settled": is_settled}


class Buyer:
    """Wants one unit, asks either server until it is told yes or that all is sold, and pays at once."""

    def __init__(
        self, site: Site, clients: tuple[httpx.AsyncClient, httpx.AsyncClient], number: int, chance: random.Random
    ) -> None:
        self._site, self._clients, self._chance = site, clients, chance
        self.owner_id = f"buyer-{number}"
        self.heard: deque[str] = deque(maxlen=HEARD)
        self._wanted = {"owner_id": self.owner_id, "quantity": 1, "ttl_seconds": 1800, "idempotency_key": "k"}

    async def buy(self) -> str:
        await asyncio.sleep(self._chance.random())
        while True:
            answer = await self._ask(f"/v1/inventory/{SKU}/reserve", self._wanted)
            if answer is not None and answer.status_code == 200:
                if await self._pay(answer.json()["reservation_id"]):
                    return "sold"
            elif answer is not None and answer.json()["detail"] == "Every unit is sold.":
                with suppress(RedisError):
                    self._site.sold_out_at.append(await asyncio.to_thread(self._site.sold_in_redis))
                return "sold out"
            await asyncio.sleep(0.02 + self._chance.random() / 20)

    async def _pay(self, reservation_id: str) -> bool:
        while True:
            answer = await self._ask(f"/v1/reservations/{reservation_id}/confirm", None)
            if answer is not None and answer.status_code == 200:
                self._site.confirmed.add(reservation_id)
                return True
            if answer is not None and answer.status_code in (404, 410, 409):
                return False  # The hold was lost with what Redis lost.
            await asyncio.sleep(0.05)

    async def _ask(self, path: str, body: dict[str, Any] | None) -> httpx.Response | None:
        client = self._chance.choice(self._clients)
        try:
            answer = await client.post(path, json=body) if body else await client.post(path)
        except httpx.TransportError as exc:
            self.heard.append(f"{path}: {exc!r}")
            return None
        self.heard.append(f"{path}: {answer.status_code} {answer.text}")
        if answer.status_code == 503:
            assert answer.json()["reason"] in NOT_NOW, answer.text
            return None
        assert answer.status_code in (200, 404, 409, 410), answer.text
        return answer


@asynccontextmanager
async def cluster_site(tmp_path: Path, database_url: str) -> AsyncIterator[Site]:
    with running_cluster(tmp_path / "cluster", cluster_require_full_coverage="no") as cluster:
        where = {"database_url": database_url, "redis_url": cluster.url, "redis_timeout_ms": "2000"}
        database = open_database(database_url)
        async with (
            serving(tmp_path / "first", **where) as first,
            serving(tmp_path / "second", **where) as second,
        ):
            try:
                site = Site(cluster, [first, second], database)
                await site.create()
                yield site
            finally:
                await database.close()


async def test_the_shards_are_on_different_nodes_and_a_crowd_buys_every_unit(
    postgres_database_url: str, tmp_path: Path, seed: int
) -> None:
    async with cluster_site(tmp_path, postgres_database_url) as site:
        assert len(set(site.nodes.values())) == 3
        assert all(int(node.command("EXISTS", Keys(name).pool)) for name, node in site.nodes.items())
        assert await site.sell_all(seed) == {"sold": UNITS, "sold out": 20}
        assert set(site.sold_out_at) == {UNITS}, "somebody heard sold out too early"
        await site.check()


async def test_servers_that_are_killed_in_the_middle_of_transfers_leave_no_unit_behind(
    postgres_database_url: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    async with cluster_site(tmp_path, postgres_database_url) as site:
        sale = asyncio.create_task(site.sell_all(seed))
        for _ in range(3):
            await asyncio.sleep(0.2 + chance.random() / 2)
            site.servers[0].kill()
            await site.servers[0].start()
        assert await sale == {"sold": UNITS, "sold out": 20}
        await site.check()


@pytest.mark.parametrize("happens", ["flushed", "killed"])
async def test_a_node_that_forgets_or_dies_in_the_middle_of_a_sale_takes_no_unit_with_it(
    postgres_database_url: str, tmp_path: Path, seed: int, happens: str
) -> None:
    async with cluster_site(tmp_path, postgres_database_url) as site:
        sale = asyncio.create_task(site.sell_all(seed))
        await asyncio.sleep(0.5)
        node = site.nodes[NAMES[0]]
        if happens == "flushed":
            node.command("FLUSHALL")
        else:
            node.kill()
            await asyncio.sleep(1.0)
            node.start()
            await asyncio.to_thread(site.cluster.await_agreement)
        assert await sale == {"sold": UNITS, "sold out": 20}
        await site.check()
