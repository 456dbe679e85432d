"""Requests that wait for a decision: a full line says so at once, and who has left is not served (DESIGN 5)."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from http_calling import body_of, eventually
from http_holding import held_up, started_patient
from http_metrics import scrape
from http_serving import Server, database_setting
from http_sockets import Answer, line_to, request_bytes, wire_to

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)

QUEUE_MAX = 5
CALLERS = 30


@pytest.fixture(scope="module", params=ENGINES)
def short(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets few callers wait."""
    settings = database_setting(request.param, request) | {"QUEUE_MAX": str(QUEUE_MAX)}
    with started_patient(tmp_path_factory.mktemp("short"), settings) as server:
        yield server


async def test_a_full_line_says_busy_at_once_and_those_in_it_are_served(short: Server) -> None:
    shop = short.shop()
    shop.provision(1_000)

    async def call(number: int) -> Answer:
        async with line_to(short) as line:
            return await line.ask("POST", f"{shop.path}/reserve", {"owner_id": f"buyer-{number}", "quantity": 1})

    before = dropped(short)
    async with held_up(short, shop):
        calls = [asyncio.create_task(call(number)) for number in range(CALLERS)]
        await until_answered(calls, CALLERS - 2 * QUEUE_MAX - 1)
    answers = await asyncio.gather(*calls)
    refused = [answer for answer in answers if answer.status != 200]
    for answer in refused:
        assert (answer.status, answer.json()["reason"]) == (503, "busy")
        assert 1 <= int(answer.headers["retry-after"]) <= 10
    served = CALLERS - len(refused)
    assert served >= QUEUE_MAX
    assert shop.counts() == (1_000 - served, served, 0, 1_000)
    assert dropped(short) - before == len(refused)


def dropped(server: Server) -> float:
    return scrape(server).get("holdfast_dropped_total", {}).get("queue_full", 0)


async def until_answered(calls: list["asyncio.Task[Answer]"], count: int) -> None:
    async with asyncio.timeout(60):
        for answered in itertools.islice(asyncio.as_completed(calls), count):
            await answered


async def test_a_caller_who_has_left_the_line_is_not_served(short: Server) -> None:
    shop = short.shop()
    shop.provision(1_000)
    with wire_to(short) as first, wire_to(short) as second:
        async with held_up(short, shop):
            first.send(request_bytes("POST", f"{shop.path}/reserve", {"owner_id": "first", "quantity": 1}))
            await _pass_by(short, 0.2)
            second.send(request_bytes("POST", f"{shop.path}/reserve", {"owner_id": "second", "quantity": 1}))
            await _pass_by(short, 0.3)
            second.reset()
            await _pass_by(short, 1.0)
        assert first.read_answer().status == 200
    assert shop.counts() == (999, 1, 0, 1_000)
    eventually(lambda: scrape(short)["holdfast_waiting_commands"][""] == 0)


@pytest.mark.parametrize(
    "asked", [("POST", "/confirm", {}), ("POST", "/extend", {"ttl_seconds": 9}), ("DELETE", "", None)]
)
async def test_what_a_caller_who_has_left_asked_of_a_hold_is_not_done(
    short: Server, asked: tuple[str, str, object]
) -> None:
    shop = short.shop()
    shop.provision(1_000)
    held = body_of(shop.reserve())
    method, action, body = asked
    path = f"/v1/reservations/{held['reservation_id']}{action}"
    with wire_to(short) as first, wire_to(short) as second:
        async with held_up(short, shop):
            first.send(request_bytes("POST", f"{shop.path}/reserve", {"owner_id": "first", "quantity": 1}))
            await _pass_by(short, 0.2)
            second.send(request_bytes(method, path, body))
            await _pass_by(short, 0.3)
            second.reset()
            await _pass_by(short, 1.0)
        assert first.read_answer().status == 200
    assert body_of(shop.show(held["reservation_id"])) == held


async def _pass_by(server: Server, seconds: float) -> None:
    """Let time go by while the server does other things: nothing can be seen from outside of who waits in it."""
    loop = asyncio.get_running_loop()
    until, turns = loop.time() + seconds, 3
    async with line_to(server) as line:
        while loop.time() < until or turns > 0:
            turns -= 1
            assert (await line.ask("GET", "/v1/inventory/nowhere/available")).status == 404
