"""Redis dies, freezes, forgets or is replaced under a running sale, and so do those around it."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from postgres_process import own_postgres
from processes import HoldfastProcess, ask, make_pool, serving, until
from redis_site import PATIENCE_S, Burst, RedisSite, confirm, opened, redis_site, reserve, seconds_until_it_sells

from databases import new_postgres_database
from holdfast.domain.stock.reservation import Status
from holdfast.ledger.stock.journal import position
from valkeys import ValkeyProcess, eventually, running_cluster, running_sentinels, running_valkey

UNITS = 100_000


@pytest.fixture(scope="module")
async def site(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisSite]:
    """One for all tests that leave it as they found it; each has a pool of its own."""
    # Calls that hang are given up early, so that a frozen server need not be frozen for long.
    url = await asyncio.to_thread(new_postgres_database, postgres_url)
    async with redis_site(tmp_path_factory.mktemp("site"), url, redis_timeout_ms="500") as site:
        yield site


@pytest.fixture
def sku_id() -> str:
    """Of a pool that nobody has used, not even the same test when it was tried before."""
    return f"sku-{uuid4().hex[:12]}"


async def test_kill_9_of_valkey_in_a_burst_loses_nothing_acknowledged(site: RedisSite, sku_id: str, seed: int) -> None:
    chance = random.Random(seed)
    await make_pool(site.client, UNITS, sku_id)
    tried: list[str] = []
    confirmed: set[str] = set()
    for death in range(2):
        burst = Burst(site, sku_id, f"burst{death}", confirm_every=5)
        async with burst.running():
            await burst.until(chance.randint(1, 200))
            site.valkey.kill()
        site.valkey.start()
        await site.holdfast.until_ready()
        await burst.ask_again()
        tried += burst.tried
        confirmed |= burst.confirmed
    snapshot = await site.snapshot(sku_id)
    assert {key for _, key in snapshot.remembered} == set(tried)
    assert len(snapshot.reservations) == len(tried)
    assert {snapshot.reservations[id_].status for id_ in confirmed} <= {Status.CONFIRMED}


async def test_a_frozen_valkey_is_an_unknown_outcome_and_has_one_effect(
    site: RedisSite, sku_id: str, seed: int
) -> None:
    chance = random.Random(seed)
    await make_pool(site.client, UNITS, sku_id)
    burst = Burst(site, sku_id)
    async with burst.running():
        await burst.until(chance.randint(1, 200))
        with site.valkey.frozen():
            # Answers that had left it before may still be on their way, but not when others have heard nothing.
            await until(lambda: "outcome_unknown" in burst.silences)
            yeses = len(burst.acknowledged)
            await until(lambda: "not_ready" in burst.silences)
            assert len(burst.acknowledged) == yeses, "somebody was told yes by a frozen server"
        await burst.until_the_next_yes()
    await burst.ask_again()
    assert len((await site.snapshot(sku_id)).reservations) == len(burst.tried)


async def test_a_frozen_valkey_once_found_out_is_told_of_at_once_and_a_thawed_one_sells_on(
    site: RedisSite, sku_id: str
) -> None:
    await make_pool(site.client, UNITS, sku_id)
    with site.valkey.frozen():
        assert (await ask(site.client, "first", sku_id)).status_code == 503
        async with asyncio.timeout(PATIENCE_S):
            while (await site.client.get("/healthz/ready")).status_code != 503:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.05)
        told = await asyncio.gather(*[ask(site.client, f"k{n}", sku_id) for n in range(20)])
        assert {answer.status_code for answer in told} == {503}
    await seconds_until_it_sells(site.client, "after", sku_id)


async def test_a_flush_in_the_middle_of_a_sale_and_it_sells_on_by_itself(
    site: RedisSite, sku_id: str, seed: int
) -> None:
    chance = random.Random(seed)
    await make_pool(site.client, UNITS, sku_id)
    burst = Burst(site, sku_id, confirm_every=3)
    async with burst.running():
        await burst.until(chance.randint(50, 150))
        site.valkey.command("FLUSHALL")
        await burst.until_the_next_yes()
        await burst.until(len(burst.acknowledged) + 50)
    snapshot = await site.snapshot(sku_id)
    lost = [r for r in burst.acknowledged.values() if r["reservation_id"] not in snapshot.reservations]
    print(f"{len(lost)} of {len(burst.acknowledged)} holds lost")
    # What was sold is sold, whatever Redis forgot; a hold may be lost with it, and is denied then.
    assert {snapshot.reservations[id_].status for id_ in burst.confirmed} == {Status.CONFIRMED}
    for hold in lost:
        assert (await confirm(site.client, hold["reservation_id"])).status_code == 404


# --- files that are not what they were


def lose_all(directory: Path, _earlier: Path) -> None:
    shutil.rmtree(directory / "appendonlydir")


def lose_the_tail(directory: Path, _earlier: Path) -> None:
    newest = max(directory.glob("appendonlydir/*.incr.aof"), key=lambda file: file.stat().st_mtime)
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size * 2 // 3)


def go_back(directory: Path, earlier: Path) -> None:
    shutil.rmtree(directory)
    shutil.copytree(earlier, directory)


@pytest.mark.parametrize("happens", [lose_all, lose_the_tail, go_back], ids=lambda happens: happens.__name__)
async def test_a_valkey_that_comes_back_with_less_is_found_out_and_rebuilt(
    site: RedisSite, sku_id: str, tmp_path: Path, happens: Callable[[Path, Path], None]
) -> None:
    await make_pool(site.client, 60, sku_id)
    await sell_some(site, sku_id, "early")
    site.valkey.stop()
    shutil.copytree(site.valkey.directory, tmp_path / "earlier")
    site.valkey.start()
    await seconds_until_it_sells(site.client, "back", sku_id)
    await sell_some(site, sku_id, "late")
    before, epoch = await site.snapshot(sku_id), await epoch_of(site, sku_id)
    site.valkey.kill()
    happens(site.valkey.directory, tmp_path / "earlier")
    site.valkey.start()
    seconds = await seconds_until_it_sells(site.client, "after", sku_id)
    print(f"{happens.__name__}: open again within {seconds:.2f} s of the restart")
    assert await epoch_of(site, sku_id) > epoch
    snapshot = await site.snapshot(sku_id)
    assert before.reservations.items() <= snapshot.reservations.items()
    assert snapshot.pool is not None
    assert (snapshot.pool.sold, snapshot.pool.held) == (10, 32)


async def sell_some(site: RedisSite, sku_id: str, name: str) -> None:
    """Twenty, of which five are sold and the rest held; in the ledger before this ends."""
    ids = [await reserve(site.client, f"{name}-{n}", sku_id) for n in range(20)]
    for id_ in ids[:5]:
        assert (await confirm(site.client, id_)).status_code == 200
    await site.drained(sku_id)


async def epoch_of(site: RedisSite, sku_id: str) -> int:
    at = await site.database.read(lambda c: position(c, sku_id))
    assert at is not None
    return at.epoch


# --- the others die


async def test_kill_9_of_a_server_with_its_drainer_behind_loses_nothing(
    postgres_database_url: str, tmp_path: Path
) -> None:
    async with redis_site(tmp_path, postgres_database_url, "--no-background") as site:
        await make_pool(site.client, UNITS, "behind")
        burst = Burst(site, "behind", confirm_every=10)
        async with burst.running():
            await burst.until(60)
            site.holdfast.kill()
        assert site.journal_length("behind") > 0
        site.holdfast.options = ()
        await site.holdfast.start()
        await burst.ask_again()
        snapshot = await site.snapshot("behind")
        assert len(snapshot.reservations) == len(burst.tried)
        assert {snapshot.reservations[id_].status for id_ in burst.confirmed} == {Status.CONFIRMED}


async def test_without_postgresql_holds_go_on_and_nothing_is_called_sold(postgres_url: str, tmp_path: Path) -> None:
    assert postgres_url
    with own_postgres() as postgres:
        async with redis_site(tmp_path, postgres.url) as site:
            await make_pool(site.client, 10, "alone")
            held = await reserve(site.client, "before", "alone")
            await asyncio.to_thread(postgres.kill)
            during = await reserve(site.client, "during", "alone")
            refused = await confirm(site.client, held)
            assert (refused.status_code, refused.json()["reason"]) == (503, "not_ready")
            await asyncio.to_thread(postgres.start)
            for id_ in (held, during):
                await confirmed(site, id_)
            snapshot = await site.snapshot("alone")
            assert {id_: r.status for id_, r in snapshot.reservations.items()} == {
                held: Status.CONFIRMED,
                during: Status.CONFIRMED,
            }


async def confirmed(site: RedisSite, reservation_id: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await confirm(site.client, reservation_id)).status_code != 200:  # noqa: ASYNC110 - until it is back
            await asyncio.sleep(0.05)


# --- more than one Valkey


async def test_a_failover_that_loses_a_hold_denies_it_clearly_and_sells_no_unit_twice(
    postgres_database_url: str, tmp_path: Path
) -> None:
    with running_sentinels(tmp_path / "service") as service:
        where = {"database_url": postgres_database_url, "redis_url": service.url}
        async with (
            serving(tmp_path / "first", "--no-background", **where) as first,
            opened(service.replica, first, postgres_database_url) as site,
        ):
            await make_pool(site.client, 3, "few")
            kept = await reserve(site.client, "kept", "few")
            eventually(lambda: site.journal_length("few") == 1, "the replica has what is to be kept")
            # From here on the replica hears nothing, and nobody drains.
            service.replica.command("REPLICAOF", "127.0.0.1", 1)
            lost = await reserve(site.client, "lost", "few")
            sold = await reserve(site.client, "sold", "few")
            assert (await confirm(site.client, sold)).status_code == 200
            service.primary.kill()
            await asyncio.to_thread(service.await_failover)
            async with serving(tmp_path / "second", **where):
                seconds = await seconds_until_it_sells(site.client, "after", "few")
                print(f"sold again {seconds:.2f} s after the sentinels had agreed")
                assert (await confirm(site.client, lost)).status_code == 404
                # The new primary does not know that one of the three is sold; the ledger does.
                again = await reserve(site.client, "again", "few")
                for id_ in (kept, await reserve(site.client, "after", "few")):
                    assert (await confirm(site.client, id_)).status_code == 200
                refused = await confirm(site.client, again)
                assert (refused.status_code, refused.json()["reason"]) == (503, "not_ready")
                assert (await final(site, again)).json()["reason"] == "reservation_cancelled"
                snapshot = await site.snapshot("few")
                assert snapshot.pool is not None
                assert snapshot.pool.sold == 3
                assert snapshot.reservations[sold].status is Status.CONFIRMED


async def final(site: RedisSite, reservation_id: str) -> httpx.Response:
    """The answer to a confirm, once the pool is rebuilt."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await confirm(site.client, reservation_id)).status_code == 503:  # noqa: ASYNC110 - the reconciler's turn
            await asyncio.sleep(0.05)
    return answer


async def test_a_cluster_of_three_sells_many_pools_and_one_node_may_restart(
    postgres_database_url: str, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "cluster", cluster_require_full_coverage="no") as cluster:
        where = {"database_url": postgres_database_url, "redis_url": cluster.url}
        pools = {node: pool_on(cluster.owner, node) for node in cluster.nodes}
        async with serving(tmp_path / "holdfast", **where) as holdfast, holdfast.client() as client:
            for sku_id in pools.values():
                await make_pool(client, 10, sku_id)
                assert (await confirm(client, await reserve(client, "sold", sku_id))).status_code == 200
            down, *others = cluster.nodes
            down.kill()
            for node in others:
                # Those on other nodes go on, into the ledger as well.
                await seconds_until_it_sells(client, "meanwhile", pools[node])
                async with opened(node, holdfast, postgres_database_url) as site:
                    await site.drained(pools[node])
            down.start()
            cluster.await_agreement()
            for node, sku_id in pools.items():
                await seconds_until_it_sells(client, "after", sku_id)
                async with opened(node, holdfast, postgres_database_url) as site:
                    snapshot = await site.snapshot(sku_id)
                assert snapshot.pool is not None
                assert (snapshot.pool.sold, snapshot.pool.held) == (1, 1 if node is down else 2)


def pool_on(owner: Callable[[str], ValkeyProcess], node: ValkeyProcess) -> str:
    return next(name for name in (f"sku{n}" for n in range(1000)) if owner(f"{{{name}}}") is node)


# --- a Redis that would forget


MENDS = ("CONFIG SET maxmemory-policy noeviction", "CONFIG SET appendonly yes", "CONFIG SET appendfsync always")


async def test_a_valkey_that_would_forget_is_refused_at_start_with_the_commands_that_mend_it(
    postgres_database_url: str, tmp_path: Path
) -> None:
    forgetful = {"maxmemory_policy": "allkeys-lru", "appendonly": "no", "appendfsync": "everysec"}
    with running_valkey(tmp_path / "valkey", **forgetful) as valkey:
        holdfast = HoldfastProcess(tmp_path / "holdfast", database_url=postgres_database_url, redis_url=valkey.url)
        try:
            holdfast.launch()
            assert await holdfast.exit_status() != 0
            said = holdfast.log.read_text()
            for mend in MENDS:
                assert mend in said
                valkey.command(*mend.split())
            eventually(lambda: valkey.command("INFO", "persistence")["aof_rewrite_in_progress"] == 0, "it is on disk")
            await holdfast.start()
        finally:
            holdfast.end()
