"""The link to one Valkey: answers reach who asked, and every failure says what is certain."""

import asyncio
import math
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import redis.asyncio
import uvloop
from tls_proxy import Certificates, tls_proxy

from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.redis.link.connection import Node, RedisConnection, failing_as
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.redis.link.replies import RedisRefused
from holdfast.lab.load.engines import free_port
from valkeys import ValkeyProcess, eventually, running_valkey, valkey

# Long enough for a busy machine to answer in, short enough to wait for.
TIMEOUT_S = 1.0
HANG_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    with running_valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
async def link(server: ValkeyProcess) -> AsyncIterator[RedisLink]:
    server.command("FLUSHALL")
    async with linked(server.url) as link:
        yield link


@asynccontextmanager
async def linked(url: str, *, timeout_s: float = 20.0, connections: int = 8) -> AsyncIterator[RedisLink]:
    link = open_link(url, timeout_s=timeout_s, connections=connections)
    try:
        yield link
    finally:
        await link.close()


async def echo(link: RedisLink, number: int) -> bool:
    return await link.call("any", ["ECHO", number]) == [str(number).encode()]


async def failure(link: RedisLink, *commands: list[str | bytes | int]) -> EngineError:
    """How the call fails; afterwards the link must still be in step."""
    with pytest.raises(EngineError) as failed:
        await link.call("any", *commands)
    return failed.value


async def test_replies_come_in_order_and_as_they_are(link: RedisLink) -> None:
    replies = await link.call("n", ["SET", "n", 7], ["INCR", b"n"], ["GET", "n"], ["GET", "m"], ["LRANGE", "l", 0, 9])
    assert replies == [b"OK", 8, b"8", None, []]
    assert await link.call_everywhere(["INCR", "n"], ["ECHO", b"\xff"]) == [[9, b"\xff"]]


async def test_many_commands_are_one_write_on_one_connection(link: RedisLink, server: ValkeyProcess) -> None:
    await link.call("n", ["PING"])
    before = server.command("INFO", "stats")["total_reads_processed"]
    ids = await link.call("n", *[["CLIENT", "ID"]] * 200)
    after = server.command("INFO", "stats")["total_reads_processed"]
    assert len(set(ids)) == 1
    # The question itself takes a few reads. One write may take some, too, but not one for each command.
    assert after - before < 20


async def test_hundreds_of_calls_at_once_share_a_few_connections(server: ValkeyProcess) -> None:
    async with linked(server.url, connections=3) as link:
        assert all(await asyncio.gather(*[echo(link, n) for n in range(500)]))
        clients = server.command("CLIENT LIST")
        assert sum(client["lib-name"] == "holdfast" for client in clients) == 3


async def test_closing_closes_every_connection(server: ValkeyProcess) -> None:
    async with linked(server.url) as link:
        await asyncio.gather(*[echo(link, n) for n in range(20)])

    def are_gone() -> bool:
        return not [client for client in server.command("CLIENT LIST") if client["lib-name"] == "holdfast"]

    await asyncio.to_thread(eventually, are_gone, "the server has seen that they are closed")


async def test_a_user_with_a_strange_password_may_do_what_it_may(server: ValkeyProcess) -> None:
    server.command("ACL", "SETUSER", "clerk", "on", ">p@ss/w:rd%", "~*", "+echo")
    async with linked(f"redis://clerk:p%40ss%2Fw%3Ard%25@127.0.0.1:{server.port}/0") as link:
        assert await echo(link, 1)
        forbidden = await failure(link, ["SET", "a", 1])
        assert isinstance(forbidden, Unavailable)
        assert not isinstance(forbidden, RedisRefused)
        assert await echo(link, 2)


async def test_a_wrong_password_is_unavailable_and_not_shown(server: ValkeyProcess) -> None:
    async with linked(f"redis://clerk:sesame@127.0.0.1:{server.port}") as link:
        refused = await failure(link, ["PING"])
        assert isinstance(refused, Unavailable)
        assert "sesame" not in str(refused)


async def test_other_error_replies_carry_their_code(link: RedisLink) -> None:
    missing = await failure(link, ["FCALL", "holdfast_nothing", 0])
    assert isinstance(missing, RedisRefused)
    assert (missing.code, missing.message) == ("ERR", "Function not found")
    await link.call("l", ["RPUSH", "l", 1])
    wrong = await failure(link, ["INCR", "l"], ["INCR", "l"])
    assert isinstance(wrong, RedisRefused)
    assert wrong.code == "WRONGTYPE"
    assert await echo(link, 1)


async def test_a_call_executed_in_part_is_of_unknown_outcome(link: RedisLink, server: ValkeyProcess) -> None:
    assert isinstance(await failure(link, ["SET", "a", 1], ["FCALL", "holdfast_nothing", 0]), OutcomeUnknown)
    assert server.command("GET", "a") == "1"


async def test_waiting_for_replicas_is_not_execution(link: RedisLink) -> None:
    refused = await failure(link, ["FCALL", "holdfast_nothing", 0], ["WAIT", 0, 10])
    assert isinstance(refused, RedisRefused)


async def test_a_full_server_is_unavailable(tmp_path: Path) -> None:
    with running_valkey(tmp_path, maxmemory="1") as server:
        async with linked(server.url) as link:
            assert "OOM" in str(await _not_now(link, ["SET", "a", 1]))
            assert await echo(link, 1)


async def test_a_replica_is_unavailable_for_writes_and_without_its_primary_for_all(tmp_path: Path) -> None:
    with running_valkey(tmp_path, replicaof=f"127.0.0.1 {free_port()}") as server:
        async with linked(server.url) as link:
            assert "READONLY" in str(await _not_now(link, ["SET", "a", 1]))
            server.command("CONFIG", "SET", "replica-serve-stale-data", "no")
            assert "MASTERDOWN" in str(await _not_now(link, ["GET", "a"]))


async def test_a_server_that_still_loads_is_unavailable_until_it_has(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as server:
        server.command("EVAL", "for n = 1, 20000 do redis.call('SET', n, n) end", 0)
        server.command("BGREWRITEAOF")
        eventually(lambda: server.command("INFO", "persistence")["aof_rewrite_in_progress"] == 0, "written anew")
    # Microseconds for each key, and a look at its sockets now and then.
    slow = valkey(tmp_path, key_load_delay="1000", loading_process_events_interval_bytes="1024")
    try:
        slow.start(wait=False)
        async with linked(slow.url) as link:
            assert "LOADING" in str(await _not_now(link, ["GET", 7]))
            slow.command("CONFIG", "SET", "key-load-delay", 0)
            await _until_it_answers(link)
            assert await link.call("7", ["GET", 7]) == [b"7"]
    finally:
        slow.stop()


async def _not_now(link: RedisLink, *commands: list[str | bytes | int]) -> EngineError:
    failed = await failure(link, *commands)
    assert isinstance(failed, Unavailable)
    assert not isinstance(failed, RedisRefused)
    return failed


async def _until_it_answers(link: RedisLink) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await link.call("any", ["GET", "any"])
            except EngineError:
                await asyncio.sleep(0.02)
            else:
                return


async def test_nobody_there_is_unavailable_at_once() -> None:
    async with linked(f"redis://127.0.0.1:{free_port()}") as link:
        async with asyncio.timeout(HANG_S):
            assert isinstance(await failure(link, ["PING"]), Unavailable)


async def test_who_got_no_connection_in_time_knows_that_nothing_was_sent(server: ValkeyProcess) -> None:
    async with linked(server.url, timeout_s=TIMEOUT_S, connections=1) as link:
        node: Node = link._node  # type: ignore[attr-defined]
        # A call that lasts longer than others may take.
        async with node._turn(until=math.inf):
            started = monotonic()
            async with asyncio.timeout(HANG_S):
                assert "is in use" in str(await _not_now(link, ["PING"]))
            assert monotonic() - started >= TIMEOUT_S
        assert await echo(link, 1)


async def test_an_answer_that_takes_too_long_is_of_unknown_outcome(server: ValkeyProcess) -> None:
    async with linked(server.url, timeout_s=TIMEOUT_S, connections=1) as link:
        started = monotonic()
        async with asyncio.timeout(HANG_S):
            assert isinstance(await failure(link, ["BLPOP", "nothing", 0]), OutcomeUnknown)
        assert monotonic() - started >= TIMEOUT_S
        assert await echo(link, 1)


async def test_a_connection_lost_after_sending_is_of_unknown_outcome_and_nothing_is_sent_twice(
    link: RedisLink, server: ValkeyProcess
) -> None:
    lost = asyncio.create_task(failure(link, ["INCR", "n"], ["BLPOP", "nothing", 0]))
    await asyncio.to_thread(eventually, lambda: server.command("GET", "n") == "1", "the first command is done")
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert isinstance(await lost, OutcomeUnknown)
    assert await link.call("n", ["GET", "n"]) == [b"1"]


async def test_a_frozen_server_is_of_unknown_outcome_in_time_and_a_thawed_one_did_it_once(
    server: ValkeyProcess,
) -> None:
    server.command("DEL", "n")
    async with linked(server.url, timeout_s=TIMEOUT_S) as link:
        assert await echo(link, 0)
        server.freeze()
        try:
            started = monotonic()
            async with asyncio.timeout(HANG_S):
                assert isinstance(await failure(link, ["INCR", "n"]), OutcomeUnknown)
                # This one has to connect, and so knows that it sent nothing.
                assert isinstance(await failure(link, ["INCR", "n"]), Unavailable)
            assert monotonic() - started >= 2 * TIMEOUT_S
        finally:
            server.thaw()
        await _until_it_answers(link)
        assert await link.call("n", ["GET", "n"]) == [b"1"]
        assert all([await echo(link, n) for n in range(100)])


async def test_the_librarys_own_client_would_have_done_it_twice(server: ValkeyProcess) -> None:
    """Why the link uses its connections only."""
    server.command("DEL", "n")
    async with redis.asyncio.Redis(port=server.port, socket_timeout=TIMEOUT_S) as client:
        await client.ping()
        server.freeze()
        try:
            task = asyncio.ensure_future(client.incr("n"))
            await asyncio.sleep(1.5 * TIMEOUT_S)
        finally:
            server.thaw()
        assert await task >= 2


async def _restart_under(server: ValkeyProcess, *, kill: bool) -> list[bool | EngineError]:
    """What the first calls give after a restart that the event loop has not noticed yet."""
    async with linked(server.url) as link:
        await asyncio.gather(*[link.call("any", ["ECHO", n]) for n in range(50)])
        if kill:
            server.kill()
            server.start()
        else:
            server.restart()
        first = await asyncio.gather(*[echo(link, n) for n in range(50)], return_exceptions=True)
        return [answer for answer in first if not isinstance(answer, BaseException) or isinstance(answer, EngineError)]


@pytest.mark.parametrize("kill", [False, True])
async def test_the_first_calls_after_a_restart_succeed(server: ValkeyProcess, kill: bool) -> None:
    assert await _restart_under(server, kill=kill) == [True] * 50


async def test_the_first_calls_after_a_restart_succeed_on_uvloop(server: ValkeyProcess) -> None:
    assert await asyncio.to_thread(uvloop.run, _restart_under(server, kill=False)) == [True] * 50


async def _write_after_a_reset() -> None:
    """uvloop notices at the first write that the peer is gone; the second is on a connection that it has closed."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as peer:
        _, writer = await asyncio.open_connection(*peer.getsockname())
        accepted, _ = peer.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()

    async def write() -> None:
        async with failing_as(OutcomeUnknown, "the peer", loop.time() + HANG_S):
            writer.writelines([b"PING"])
            await writer.drain()

    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await write()


async def test_a_write_on_a_connection_that_uvloop_has_closed_is_a_failure_like_any_other() -> None:
    await asyncio.to_thread(uvloop.run, _write_after_a_reset())


async def test_without_a_look_at_the_socket_they_would_be_of_unknown_outcome(
    server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always(_wire: RedisConnection) -> bool:
        return True

    monkeypatch.setattr(RedisConnection, "is_fit", always)
    assert any(isinstance(answer, OutcomeUnknown) for answer in await _restart_under(server, kill=False))


async def _answers_among_leavers(url: str, chance: random.Random) -> Counter[Any]:
    """Callers that leave at any moment, among others who stay: of those, who got their own answer and who did not."""
    got: Counter[Any] = Counter()
    async with linked(url, connections=2) as link:
        for n in range(500):
            leavers = [asyncio.create_task(link.call("any", ["ECHO", -k], ["ECHO", "x" * 20_000])) for k in range(3)]
            # Turns of the loop, because its timers are coarser than a call.
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            for leaver in leavers:
                leaver.cancel()
            stayers = await asyncio.gather(*[echo(link, 1000 * n + k) for k in range(3)], return_exceptions=True)
            got.update("failed" if isinstance(answer, BaseException) else answer for answer in stayers)
            got["left"] += sum(leaver.cancelled() for leaver in leavers)
    return got


async def test_callers_that_leave_never_spoil_the_answers_of_others(server: ValkeyProcess, seed: int) -> None:
    got = await _answers_among_leavers(server.url, random.Random(seed))
    assert (got[True], got[False], got["failed"]) == (1500, 0, 0)
    # Some had their answers before they could leave; but the test means nothing if all had.
    assert got["left"] > 100


async def test_they_would_if_their_connections_were_used_again(
    server: ValkeyProcess, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def careless(node: Any, _until: float) -> AsyncIterator[RedisConnection]:
        wire = node._idle.pop() if node._idle else node._dial(node.address)
        try:
            await wire.connect()
            yield wire
        finally:
            node._idle.append(wire)

    monkeypatch.setattr(Node, "_borrowed", careless)
    assert (await _answers_among_leavers(server.url, random.Random(seed)))[False] > 0


async def test_tls_checks_the_servers_certificate_and_shows_our_own(server: ValkeyProcess, tmp_path: Path) -> None:
    ours, others = Certificates(tmp_path / "ours"), Certificates(tmp_path / "others")
    async with tls_proxy(server.port, ours) as port:
        files = f"ssl_certfile={ours.certificate}&ssl_keyfile={ours.key}"
        async with linked(f"rediss://localhost:{port}?ssl_ca_certs={ours.authority}&{files}") as link:
            assert all(await asyncio.gather(*[echo(link, n) for n in range(50)]))
        async with linked(f"rediss://localhost:{port}?ssl_ca_certs={others.authority}&{files}") as link:
            assert "certificate verify failed" in str(await failure(link, ["PING"]))
        async with linked(f"rediss://localhost:{port}?ssl_ca_certs={ours.authority}") as link:
            assert isinstance(await failure(link, ["PING"]), EngineError)
