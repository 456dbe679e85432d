"""The link to a real cluster and to a real service under sentinels, while they change under it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.redis.link.replies import RedisRefused
from holdfast.lab.load.engines import free_port
from valkeys import ValkeyCluster, WatchedService, running_cluster, running_sentinels, running_valkey

TIMEOUT_S = 1.0
HANG_S = 60.0
LIBRARY = "#!lua name=one\nserver.register_function('one', function() return 1 end)"


@asynccontextmanager
async def linked(url: str, *, timeout_s: float = 20.0) -> AsyncIterator[RedisLink]:
    link = open_link(url, timeout_s=timeout_s)
    try:
        yield link
    finally:
        await link.close()


async def seconds_until_it_serves(link: RedisLink, key: str) -> float:
    """Every failure on the way must be one of the two that callers know."""
    started = monotonic()
    async with asyncio.timeout(60):
        while True:
            try:
                await link.call(key, ["SET", key, "later"])
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.02)
            else:
                return monotonic() - started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
async def link(cluster: ValkeyCluster) -> AsyncIterator[RedisLink]:
    async with linked(cluster.url) as link:
        yield link


async def test_every_key_finds_its_server_in_a_cluster(link: RedisLink, cluster: ValkeyCluster) -> None:
    for n in range(100):
        assert await link.call(f"{{{n}}}:a", ["SET", f"{{{n}}}:a", n], ["GET", f"{{{n}}}:a"]) == [
            b"OK",
            str(n).encode(),
        ]
    sizes = [node.command("DBSIZE") for node in cluster.nodes]
    assert sorted(replies[0] for replies in await link.call_everywhere(["DBSIZE"])) == sorted(sizes)
    assert all(size > 10 for size in sizes)


async def test_one_server_is_enough_to_find_a_cluster(cluster: ValkeyCluster) -> None:
    async with linked(f"redis+cluster://127.0.0.1:{cluster.nodes[2].port},127.0.0.1:1") as link:
        assert len(await link.call_everywhere(["PING"])) == 3


async def test_a_slot_on_the_move_is_asked_for_and_a_moved_one_followed(
    link: RedisLink, cluster: ValkeyCluster
) -> None:
    source, target, other = cluster.nodes
    key = cluster.key_of(source)
    await link.call(key, ["PING"])
    cluster.begin_move(key, target)
    assert await link.call(key, ["INCR", key], ["INCR", key], ["WAIT", 0, 1]) == [1, 2, 0]
    cluster.end_move(key, target)
    assert await link.call(key, ["INCR", key]) == [3]
    assert target.command("GET", key) == "3"

    # The map has been read anew, so there is nothing to follow any more.
    redirects = [node.command("INFO", "errorstats").get("errorstat_MOVED") for node in (source, other)]
    assert await link.call(key, ["INCR", key]) == [4]
    assert await link.call(key, ["INCR", key]) == [5]
    assert [node.command("INFO", "errorstats").get("errorstat_MOVED") for node in (source, other)] == redirects


@pytest.mark.slow
async def test_servers_that_send_us_in_circles_are_unavailable(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        source, target, _ = cluster.nodes
        key = cluster.key_of(source)
        async with linked(cluster.url) as link:
            await link.call(key, ["PING"])
            # Only the old owner is told: it sends us to the new one, who sends us back.
            source.command("CLUSTER", "SETSLOT", cluster.slot(key), "NODE", target.command("CLUSTER", "MYID"))
            with pytest.raises(Unavailable, match="MOVED"):
                await link.call(key, ["INCR", key])
            cluster.end_move(key, target)
            assert await link.call(key, ["INCR", key]) == [1]


async def test_errors_of_commands_are_not_taken_for_a_change_of_the_cluster(link: RedisLink) -> None:
    with pytest.raises(RedisRefused) as refused:
        await link.call("a", ["MSET", "{a}", 1, "{b}", 2])
    assert refused.value.code == "CROSSSLOT"
    with pytest.raises(RedisRefused) as refused:
        await link.call_everywhere(["FCALL", "holdfast_nothing", 0])
    assert refused.value.code == "ERR"


@pytest.mark.slow
async def test_a_dead_server_makes_its_keys_unavailable_until_it_is_back(
    cluster: ValkeyCluster, link: RedisLink
) -> None:
    gone = cluster.nodes[1]
    key = cluster.key_of(gone)
    await link.call(key, ["SET", key, "kept"])
    gone.kill()
    try:
        with pytest.raises(Unavailable):
            await link.call(key, ["GET", key])
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await link.call_everywhere(["SET", key, "lost"])
    finally:
        gone.start()
    await seconds_until_it_serves(link, key)
    await asyncio.to_thread(cluster.await_agreement)
    assert len(await link.call_everywhere(["PING"])) == 3


@pytest.mark.slow
async def test_a_replica_that_took_over_in_a_cluster_is_found(tmp_path: Path) -> None:
    with running_cluster(tmp_path, with_replica=True) as cluster:
        dying, *_ = cluster.nodes
        key = cluster.key_of(dying)
        async with linked(cluster.url, timeout_s=TIMEOUT_S) as link:
            await link.call(key, ["SET", key, 1])
            dying.kill()
            seconds = await seconds_until_it_serves(link, key)
            print(f"served again {seconds:.1f} s after the death of a primary in a cluster")
            assert cluster.replica is not None
            assert cluster.replica.command("GET", key) == "later"
            assert len(await link.call_everywhere(["PING"])) == 3


async def test_what_only_some_primaries_did_is_of_unknown_outcome(link: RedisLink, cluster: ValkeyCluster) -> None:
    cluster.nodes[0].command("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(OutcomeUnknown, match=r"on some primaries only.*OOM"):
            await link.call_everywhere(["FUNCTION", "LOAD", LIBRARY])
    finally:
        cluster.nodes[0].command("CONFIG", "SET", "maxmemory", 0)
    assert len(await link.call_everywhere(["FUNCTION", "FLUSH"])) == 3


async def test_a_server_without_a_cluster_is_unavailable_as_one(tmp_path: Path) -> None:
    with running_valkey(tmp_path, cluster_enabled="yes", cluster_port=str(free_port())) as server:
        async with linked(server.url) as link:
            with pytest.raises(Unavailable, match="CLUSTERDOWN"):
                await link.call("a", ["GET", "a"])
        async with linked(f"redis+cluster://127.0.0.1:{server.port}") as link:
            with pytest.raises(Unavailable, match="no server of the cluster owns this key"):
                await link.call("a", ["GET", "a"])


PASSWORDS = {"requirepass": "s/esame", "primaryauth": "s/esame"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WatchedService]:
    with running_sentinels(tmp_path, sentinel_password="guard", **PASSWORDS) as service:
        yield service


@pytest.mark.slow
async def test_sentinels_lead_to_the_next_primary_when_one_dies(service: WatchedService) -> None:
    async with linked(service.url, timeout_s=TIMEOUT_S) as link:
        assert await link.call("a", ["SET", "a", 1]) == [b"OK"]
        service.primary.kill()
        seconds = await seconds_until_it_serves(link, "a")
        print(f"served again {seconds:.1f} s after the primary's death")
        assert service.replica.command("GET", "a") == "later"

        # It comes back thinking it is still the primary; nobody goes there.
        service.primary.start()
        assert await link.call("a", ["SET", "a", 2], ["GET", "a"]) == [b"OK", b"2"]
        assert service.replica.command("GET", "a") == "2"
    async with linked(service.url.replace("/holdfast", "/nobody")) as link:
        with pytest.raises(Unavailable, match="do not know a service named nobody"):
            await link.call("a", ["PING"])


@pytest.mark.slow
async def test_sentinels_lead_to_the_next_primary_when_one_freezes(service: WatchedService) -> None:
    async with linked(service.url, timeout_s=TIMEOUT_S) as link:
        await link.call("a", ["SET", "a", 1])
        service.primary.freeze()
        async with asyncio.timeout(HANG_S):
            with pytest.raises(OutcomeUnknown):
                await link.call("a", ["SET", "a", 2])
        service.sentinels[0].freeze()
        seconds = await seconds_until_it_serves(link, "a")
        print(f"served again {seconds:.1f} s after the primary froze, one sentinel frozen as well")
        assert service.replica.command("GET", "a") == "later"


@pytest.mark.slow
async def test_a_primary_that_became_a_replica_is_given_up(service: WatchedService) -> None:
    async with linked(service.url) as link:
        await link.call("a", ["SET", "a", 1])
        # Nobody told the sentinels, who find out and repair it only after a while.
        service.primary.command("REPLICAOF", "127.0.0.1", service.replica.port)
        with pytest.raises(Unavailable, match="READONLY"):
            await link.call("a", ["SET", "a", 2])
        with pytest.raises(Unavailable, match="the server that the sentinels name is not a primary"):
            await link.call("a", ["GET", "a"])
