"""A Redis that would lose or evict stock is refused, and the refusal says how to mend it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.errors import SettingsError
from holdfast.gate.redis.link.durability import check_durability, find_problems
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.redis_link import open_link
from valkeys import ValkeyProcess, eventually, is_following, running_cluster, running_valkey


@pytest.fixture(scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    with running_valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server
        # Until it has written the file that a test has just switched on, it refuses to stop.
        server.kill()


@pytest.fixture
def server(_server: ValkeyProcess) -> ValkeyProcess:
    """As Holdfast wants it."""
    for setting in ("maxmemory-policy noeviction", "appendonly yes", "appendfsync always"):
        _server.command("CONFIG", "SET", *setting.split())
    return _server


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[RedisLink]:
    link = open_link(url)
    try:
        yield link
    finally:
        await link.close()


async def refusal(url: str, *, fsync: str = "always", replicas_min: int = 0) -> str:
    async with linked(url) as link:
        with pytest.raises(SettingsError) as refused:
            await check_durability(link, fsync=fsync, replicas_min=replicas_min)
        return str(refused.value)


async def accepts(url: str, *, fsync: str = "always", replicas_min: int = 0) -> bool:
    async with linked(url) as link:
        await check_durability(link, fsync=fsync, replicas_min=replicas_min)
    return True


def commands_in(message: str) -> list[list[str]]:
    """What each line says to do."""
    return [line.rpartition("fix it with ")[2].split() for line in message.splitlines()]


async def test_a_server_as_it_should_be_is_accepted(server: ValkeyProcess) -> None:
    assert await accepts(server.url)


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        ("maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction"),
        ("maxmemory-policy volatile-ttl", "CONFIG SET maxmemory-policy noeviction"),
        ("appendonly no", "CONFIG SET appendonly yes"),
        ("appendfsync everysec", "CONFIG SET appendfsync always"),
        ("appendfsync no", "CONFIG SET appendfsync always"),
    ],
)
async def test_each_danger_is_refused_with_the_command_that_mends_it(
    server: ValkeyProcess, wrong: str, mended: str
) -> None:
    server.command("CONFIG", "SET", *wrong.split())
    (command,) = commands_in(await refusal(server.url))
    assert command == mended.split()
    server.command(*command)
    assert await accepts(server.url)


async def test_all_dangers_are_told_at_once(server: ValkeyProcess) -> None:
    for wrong in ("maxmemory-policy allkeys-lru", "appendonly no", "appendfsync no"):
        server.command("CONFIG", "SET", *wrong.split())
    message = await refusal(server.url, fsync="everysec")
    assert message.count(f"Redis on port {server.port}: ") == 3
    for command in commands_in(message):
        server.command(*command)
    assert await accepts(server.url, fsync="everysec")


@pytest.mark.parametrize("appendonly", ["yes", "no"])
async def test_who_asks_for_no_syncing_may_do_without_the_file(server: ValkeyProcess, appendonly: str) -> None:
    server.command("CONFIG", "SET", "appendonly", appendonly)
    assert await accepts(server.url, fsync="no")
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert "noeviction" in await refusal(server.url, fsync="no")


async def test_missing_replicas_are_counted(server: ValkeyProcess, tmp_path: Path) -> None:
    message = await refusal(server.url, replicas_min=1)
    assert "0 of at least 1 replicas are connected (HOLDFAST_REDIS_REPLICAS_MIN)" in message
    assert f"REPLICAOF <host of this server> {server.port}" in message
    with running_valkey(tmp_path) as replica:
        replica.command("REPLICAOF", "127.0.0.1", server.port)
        eventually(lambda: is_following(replica), "it follows")
        eventually(lambda: server.command("INFO", "replication")["slave0"]["state"] == "online", "it is online")
        assert await accepts(server.url, replicas_min=1)
        assert "1 of at least 2" in await refusal(server.url, replicas_min=2)


@pytest.mark.slow
async def test_every_primary_of_a_cluster_is_checked(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        assert await accepts(cluster.url)
        wrong = cluster.nodes[1]
        wrong.command("CONFIG", "SET", "appendonly", "no")
        assert (await refusal(cluster.url)).startswith(f"Redis on port {wrong.port}: appendonly no")


@pytest.mark.parametrize("grant", ["+config|get", "-config"])
async def test_a_user_that_may_not_ask_is_told_what_to_grant(server: ValkeyProcess, grant: str) -> None:
    server.command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", "~*", "+info", grant)
    url = f"redis://clerk:pw@127.0.0.1:{server.port}"
    if grant == "+config|get":
        assert await accepts(url)
        return
    message = await refusal(url)
    assert "ACL SETUSER <user> +config|get" in message
    assert "HOLDFAST_REDIS_FSYNC=no" in message
    assert await accepts(url, fsync="no")


async def test_a_user_that_may_not_even_look_is_told_so(server: ValkeyProcess) -> None:
    server.command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", "~*")
    assert "ACL SETUSER <user> +info" in await refusal(f"redis://clerk:pw@127.0.0.1:{server.port}")


async def test_a_server_where_config_was_taken_away_says_what_to_check(tmp_path: Path) -> None:
    """As managed services do."""
    with running_valkey(tmp_path, rename_command="CONFIG ") as server:
        assert "if your provider offers no CONFIG" in await refusal(server.url)
        assert await accepts(server.url, fsync="no")


def test_a_server_without_functions_is_refused() -> None:
    """No server that old comes in a wheel; this is what Redis 6.2 says of itself."""
    info = {"redis_version": "6.2.14", "maxmemory_policy": "noeviction", "tcp_port": "6379"}
    (problem,) = find_problems(info, replicas_min=0)
    assert problem == "version 6.2.14 has no functions; install Redis 7.0 or newer, or Valkey"
