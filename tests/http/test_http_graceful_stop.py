"""SIGTERM: stop taking connections, finish what was accepted, exit 0 within 10 s, lose nothing."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from http_calling import Shop, body_of, eventually
from http_holding import held_up, started_patient
from http_serving import STOP_S, Server, database_setting, started
from http_sockets import Answer, Cut, Line, line_to, wire_to

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)

CALLERS = 40


@pytest.fixture(params=ENGINES)
def setting(request: pytest.FixtureRequest) -> dict[str, str]:
    return database_setting(request.param, request)


def is_listening(server: Server) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", server.port)) == 0


@pytest.mark.slow
async def test_what_was_accepted_is_answered_before_the_server_stops(tmp_path: Path, setting: dict[str, str]) -> None:
    with started_patient(tmp_path, setting) as server:
        shop = server.shop()
        shop.provision(1_000)
        async with AsyncExitStack() as lines:
            waiting = [await lines.enter_async_context(line_to(server)) for _ in range(CALLERS)]
            async with held_up(server, shop):
                asked = [asyncio.create_task(_reserve(line, shop, f"key-{n}")) for n, line in enumerate(waiting)]
                await _until_received(server)
                server.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(STOP_S):
                    while is_listening(server):  # noqa: ASYNC110 - it raises no event
                        await asyncio.sleep(0.01)
                assert not any(task.done() for task in asked)
            answers = await asyncio.gather(*asked)
        assert [answer.status for answer in answers] == [200] * CALLERS
        assert server.process.wait(STOP_S) == 0
    with started(tmp_path, settings=setting) as server:
        again = Shop(server.client, shop.sku_id)
        assert again.counts() == (1_000 - CALLERS, CALLERS, 0, 1_000)
        assert again.reserve("ada", idempotency_key="key-0").content == answers[0].body


async def _until_received(server: Server) -> None:
    """Those who ask later and are answered show that those before them were heard."""
    for _ in range(10):
        async with line_to(server) as line:
            assert (await line.ask("GET", "/v1/inventory/nowhere/available")).status == 404


async def _reserve(line: Line, shop: Shop, key: str) -> Answer:
    return await line.ask("POST", f"{shop.path}/reserve", {"owner_id": "ada", "quantity": 1, "idempotency_key": key})


@pytest.mark.slow
async def test_under_load_nothing_is_done_without_being_told_and_nothing_told_is_lost(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    told: dict[str, bytes] = {}
    busy = asyncio.Event()

    async def call(server: Server, shop: Shop, caller: int) -> None:
        async with line_to(server) as line:
            for number in range(1_000_000):
                key = f"{caller}-{number}"
                answer = await _reserve(line, shop, key)
                assert answer.status == 200
                told[key] = answer.body
                if len(told) >= 500:
                    busy.set()

    with started(tmp_path, settings=setting) as server:
        shop = server.shop()
        shop.provision(1_000_000)
        calls = [asyncio.create_task(call(server, shop, caller)) for caller in range(16)]
        await asyncio.wait_for(busy.wait(), 60)
        server.process.send_signal(signal.SIGTERM)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert server.process.wait(STOP_S) == 0
    assert [end for end in ends if not (isinstance(end, Cut | ConnectionError))] == []
    with started(tmp_path, settings=setting) as server:
        again = Shop(server.client, shop.sku_id)
        assert again.counts() == (1_000_000 - len(told), len(told), 0, 1_000_000)
        for key in list(told)[-50:]:
            replayed = again.reserve("ada", idempotency_key=key)
            assert (replayed.headers["idempotency-replayed"], replayed.content) == ("true", told[key])


@pytest.fixture
def besieged(tmp_path: Path) -> Iterator[Server]:
    with started(tmp_path) as server:
        yield server


@pytest.mark.slow
def test_clients_that_dawdle_cannot_keep_a_server_from_stopping(besieged: Server) -> None:
    with wire_to(besieged) as idle, wire_to(besieged) as half_a_head, wire_to(besieged) as half_a_body:
        idle.send(b"GET /healthz/live HTTP/1.1\r\nHost: h\r\n\r\n")
        assert idle.read_answer().status == 200
        half_a_head.send(b"GET /healthz/live HTTP/1.1\r\n")
        half_a_body.send(b"POST /v1/inventory/a/reserve HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
        body_of(besieged.client.get("/healthz/live"))
        assert besieged.stop() == 0
    assert eventually(lambda: besieged.log_lines)[-1]["event"] == "stopped"


def test_a_stop_that_is_asked_for_twice_is_a_stop(besieged: Server) -> None:
    besieged.process.send_signal(signal.SIGTERM)
    besieged.process.send_signal(signal.SIGINT)
    assert besieged.process.wait(STOP_S) == 0
