"""A part of a pool is lost in Redis, or a cluster moves it to another server, while a sale runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from processes import ask, make_pool, serving
from redis_site import NOT_NOW, PATIENCE_S, seconds_until_it_sells

from holdfast.bootstrap.stores import open_engine
from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.redis.encoding import POOL_KEYS, Keys
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import Settings
from ledger_snapshot import read_ledger_snapshot
from valkeys import ValkeyCluster, ValkeyProcess, running_cluster, running_sentinels, running_valkey

pytestmark = pytest.mark.slow

SKU = "torn"
Where = Callable[[], ValkeyProcess]


@contextmanager
def single(directory: Path) -> Iterator[tuple[str, Where]]:
    with running_valkey(directory) as server:
        yield server.url, lambda: server


@contextmanager
def sentinel(directory: Path) -> Iterator[tuple[str, Where]]:
    with running_sentinels(directory) as service:
        yield service.url, lambda: service.primary


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[str, Where]]:
    with running_cluster(directory) as nodes:
        yield nodes.url, lambda: nodes.owner(Keys(SKU).pool)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = open_database(url)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def gate_of(database: Database, database_url: str, redis_url: str) -> AsyncIterator[Any]:
    settings = Settings(database_url=database_url, redis_url=redis_url, redis_timeout_ms=20_000)
    async with open_engine(settings, database) as engine:
        yield engine.gate


def attempt(owner: str, key: str) -> Reserve:
    return Reserve(new_reservation_id(SKU, owner), owner, 1, 1, key=key)


async def fill(gate: Any, holds: int) -> None:
    """Each by an owner who may have one."""
    await gate.apply(SKU, [Provision(100_000, Rules(per_owner_limit=1))])
    for first in range(0, holds, 500):
        owners = [f"owner-{n}" for n in range(first, min(first + 500, holds))]
        await gate.apply(SKU, [attempt(owner, "k") for owner in owners])


async def lose(name: str, server: ValkeyProcess, gate: Any, holds: int) -> None:
    server.command("DEL", Keys(SKU).prefix + name)
    started = monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while (await gate.apply(SKU, [attempt(f"after-{name}", "k")]))[0].outcome is Outcome.NOT_READY:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    seconds = monotonic() - started
    print(f"{holds} holds, {name} lost: sells again after {seconds:.2f} s")
    again, more = await gate.apply(SKU, [attempt("owner-3", "k"), attempt("owner-4", "another")])
    assert (again.outcome, more.outcome) == (Outcome.REPLAYED, Outcome.BUYER_LIMIT)


@pytest.mark.parametrize("topology", [single, sentinel, cluster])
@pytest.mark.parametrize("holds", [10, 25_000])
async def test_a_pool_sells_again_by_itself_whichever_of_its_keys_is_lost(
    postgres_database_url: str, tmp_path: Path, topology: Any, holds: int
) -> None:
    with topology(tmp_path / "valkey") as (url, server):
        way = {"database_url": postgres_database_url, "redis_url": url}
        async with (
            serving(tmp_path / "holdfast", **way) as holdfast,
            holdfast.client() as client,
            opened(postgres_database_url) as database,
            gate_of(database, postgres_database_url, url) as gate,
        ):
            await fill(gate, holds)
            for name in POOL_KEYS:
                await drained(server())
                await lose(name, server(), gate, holds)
            await drained(server())
            snapshot = await read_ledger_snapshot(database, SKU)
            snapshot.check()
            assert len(snapshot.reservations) == holds + len(POOL_KEYS)
            checked = (await client.post("/v1/ops/reconcile")).json()
            assert checked["ok"], checked


async def drained(server: ValkeyProcess) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while server.command("XLEN", Keys(SKU).journal):  # noqa: ASYNC110 - the server does it, and raises no event here
            await asyncio.sleep(0.02)


class Reshard:
    """Moves the slot of the pool, as the tools do it: told to both, the keys, told to all."""

    def __init__(self, nodes: ValkeyCluster) -> None:
        self._nodes = nodes
        self._key = Keys(SKU).pool
        self.source = nodes.owner(self._key)
        self.target = next(node for node in nodes.nodes if node is not self.source)

    def begin(self) -> None:
        self._nodes.begin_move(self._key, self.target)

    def move(self, *names: str) -> None:
        keys = [Keys(SKU).prefix + name for name in names]
        self.source.command("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    def end(self) -> None:
        self._nodes.end_move(self._key, self.target)


class Buyers:
    """One after the other, each told yes or why not."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.refusals: list[str] = []
        self.served = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        for n in range(1_000_000):
            answer = await ask(self._client, f"buyer-{n}", SKU)
            if answer.status_code == 200:
                self.served += 1
            else:
                self.refusals.append(answer.json()["reason"])

    async def more(self, count: int = 20) -> None:
        aim = self.served + count
        async with asyncio.timeout(PATIENCE_S):
            while self.served < aim and not self.refusals:  # noqa: ASYNC110 - the task above counts
                await asyncio.sleep(0.01)


async def test_a_slot_is_moved_under_a_sale_without_a_refusal(postgres_database_url: str, tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster") as nodes:
        way = {"database_url": postgres_database_url, "redis_url": nodes.url}
        async with serving(tmp_path / "holdfast", **way) as holdfast, holdfast.client() as client:
            await make_pool(client, 100_000, SKU)
            reshard, buyers = Reshard(nodes), Buyers(client)
            async with buyers.running():
                await buyers.more()
                reshard.begin()
                await buyers.more()
                reshard.move(*POOL_KEYS)
                await buyers.more()
                reshard.end()
                await buyers.more()
            assert buyers.refusals == []
            assert buyers.served >= 80
            assert nodes.owner(Keys(SKU).pool) is reshard.target


async def test_keys_that_are_in_two_places_are_named_in_ops_and_sold_again_when_they_are_not(
    postgres_database_url: str, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "cluster") as nodes:
        way = {"database_url": postgres_database_url, "redis_url": nodes.url}
        async with serving(tmp_path / "holdfast", **way) as holdfast, holdfast.client() as client:
            await make_pool(client, 100_000, SKU)
            reshard = Reshard(nodes)
            reshard.begin()
            reshard.move(*POOL_KEYS[:3])
            refused = await ask(client, "meanwhile", SKU)
            assert refused.json()["reason"] in NOT_NOW
            assert (await client.post("/v1/ops/reconcile")).json()["data"][0]["finding"] == "slot_migrating"
            reshard.move(*POOL_KEYS[3:])
            reshard.end()
            await seconds_until_it_sells(client, "after", SKU)
            assert (await client.post("/v1/ops/reconcile")).json()["ok"]
