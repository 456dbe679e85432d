"""A server is lost while it has a pool locked, or an operator locks a table: others go on, and the pool is named."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest
from postgres_process import own_postgres
from processes import HoldfastProcess, ask, children, make_pool, serving
from wire import Wire, wired

from quiet_time import QuietTime

pytestmark = pytest.mark.usefixtures("postgres_url")

# The server kills the lost session after 2 s.
SELLS_AGAIN_S = 3.0
# An abandoned waiter would stay for good, and one more would follow every few seconds.
WATCHED_S = 12.0
Lose = Callable[[HoldfastProcess, Wire], None]


def signal_all(holdfast: HoldfastProcess, number: signal.Signals) -> None:
    for pid in (holdfast.process.pid, *children(holdfast.process.pid)):
        os.kill(pid, number)


def freeze(holdfast: HoldfastProcess, _wire: Wire) -> None:
    signal_all(holdfast, signal.SIGSTOP)


def cut_off(_holdfast: HoldfastProcess, wire: Wire) -> None:
    wire.flows.clear()


async def until_blocked(observer: asyncpg.Connection) -> None:
    async with asyncio.timeout(30):
        while not await waiting(observer):  # noqa: ASYNC110 - a wait in the database tells nobody here
            await asyncio.sleep(0.01)


async def waiting(observer: asyncpg.Connection) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return int(await observer.fetchval(query))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def lose_with_the_pool_locked(
    observer: asyncpg.Connection, client: httpx.AsyncClient, lose: Callable[[], None]
) -> "asyncio.Task[httpx.Response]":
    """A change of the total takes a transaction, and has locked the pool when it writes the event; that is where it is
    stopped and then lost."""
    async with observer.transaction():
        await observer.execute("LOCK TABLE events IN SHARE MODE")
        changing = asyncio.create_task(client.put("/v1/inventory/sku", json={"total_units": 101}))
        await until_blocked(observer)
        lose()
    return changing


async def sells_again(client: httpx.AsyncClient) -> None:
    since_lost = QuietTime()
    async with asyncio.timeout(60):
        n = 0
        while (await ask(client, f"after-{n}")).status_code != 200:
            n += 1
    assert since_lost.seconds < SELLS_AGAIN_S


@pytest.mark.parametrize("lose", [freeze, cut_off])
async def test_others_sell_again_within_seconds_of_a_host_that_is_lost_with_the_pool_locked(
    tmp_path: Path, lose: Lose
) -> None:
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        wire, far_url = await stack.enter_async_context(wired(postgres.url))
        lost = await stack.enter_async_context(serving(tmp_path / "lost", "--no-background", database_url=far_url))
        other = await stack.enter_async_context(serving(tmp_path / "other", database_url=postgres.url))
        theirs = await stack.enter_async_context(lost.client())
        client = await stack.enter_async_context(other.client())
        observer = await stack.enter_async_context(connected(postgres.url))
        await make_pool(client, 100)

        changing = await lose_with_the_pool_locked(observer, theirs, lambda: lose(lost, wire))
        await sells_again(client)

        signal_all(lost, signal.SIGCONT)
        wire.flows.set()
        answer = await changing
        assert (answer.status_code, answer.json()["reason"]) in {(503, "not_ready"), (503, "outcome_unknown")}
        await lost.until_ready()
        assert (await ask(theirs, "afterwards")).status_code == 200


async def refusals(client: httpx.AsyncClient, until: float, sku_id: str) -> list[float]:
    """How long each took, of a buyer who tries again and again."""
    took = []
    while time.monotonic() < until:
        asking = QuietTime()
        answer = await ask(client, f"{time.monotonic()}", sku_id)
        assert (answer.status_code, answer.json()["reason"]) in {(503, "not_ready"), (503, "busy")}
        took.append(asking.seconds)
        await asyncio.sleep(0.05)
    return took


async def watch(observer: asyncpg.Connection, until: float) -> list[int]:
    counts = []
    while time.monotonic() < until:
        counts.append(await waiting(observer))
        await asyncio.sleep(0.1)
    return counts


async def named(client: httpx.AsyncClient) -> list[str]:
    answer = await client.get("/v1/ops/pools")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["locked_pools"])


async def test_a_locked_pool_is_named_its_waiters_do_not_pile_up_and_other_pools_sell(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        settings = {"database_url": postgres.url, "queue_timeout_ms": "2000"}
        async with (
            serving(tmp_path / "data", **settings) as holdfast,
            holdfast.client() as client,
            connected(postgres.url) as operator,
            connected(postgres.url) as observer,
        ):
            await make_pool(client, 100, "locked")
            await make_pool(client, 100, "free")
            assert await named(client) == []
            async with operator.transaction():
                await operator.execute("SELECT * FROM pools WHERE sku_id = 'locked' FOR UPDATE")
                until = time.monotonic() + WATCHED_S
                buyers = [refusals(client, until, "locked") for _ in range(20)]
                watching = asyncio.gather(watch(observer, until), asyncio.gather(*buyers))
                await until_named(client, ["locked"])
                assert (await ask(client, "free", "free")).status_code == 200
                check = (await client.get("/healthz/ready")).json()["checks"]["pools"]
                assert (check["ok"], check["reason"], check["pools"]) == (False, "pool_locked", ["locked"])
                counts, took = await watching
            assert max(counts) <= 2
            assert max(max(each) for each in took) < 5.0
            assert (await ask(client, "after", "locked")).status_code == 200
            assert await named(client) == []


async def until_named(client: httpx.AsyncClient, pools: list[str]) -> None:
    async with asyncio.timeout(30):
        while await named(client) != pools:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)


async def test_an_operators_table_lock_is_refused_in_time_and_named(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with (
            serving(tmp_path / "data", database_url=postgres.url, queue_timeout_ms="2000") as holdfast,
            holdfast.client() as client,
            connected(postgres.url) as operator,
            connected(postgres.url) as observer,
        ):
            await make_pool(client, 100)
            await client.get("/v1/ops/pools")
            async with operator.transaction():
                await operator.execute("LOCK TABLE pools IN ACCESS EXCLUSIVE MODE")
                until = time.monotonic() + WATCHED_S
                buyers = [refusals(client, until, "sku") for _ in range(20)]
                watching = asyncio.gather(watch(observer, until), asyncio.gather(*buyers))
                await until_named(client, ["sku"])
                counts, took = await watching
            assert max(counts) <= 8  # The connections of one server; new ones do not join abandoned ones.
            assert max(max(each) for each in took) < 4.5
            assert (await ask(client, "after")).status_code == 200
            assert "dependency_lost" not in holdfast.log.read_text()
