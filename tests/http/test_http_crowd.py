"""Many callers at once: never one unit too many, never one left behind, one effect per key."""

import asyncio
from collections import Counter

from http_calling import Shop
from http_serving import Server
from http_sockets import Answer, line_to

pytest_plugins = ("http_fixtures",)

ATTEMPTS, UNITS, CONNECTIONS = 2_000, 500, 64


async def test_two_thousand_attempts_on_five_hundred_units_grant_exactly_five_hundred(
    server: Server, shop: Shop
) -> None:
    shop.provision(UNITS)
    attempts = iter(range(ATTEMPTS))

    async def buy_on_one_connection() -> list[Answer]:
        async with line_to(server) as line:
            wishes = ({"owner_id": f"buyer-{n}", "quantity": 1} for n in attempts)
            return [await line.ask("POST", f"{shop.path}/reserve", wish) for wish in wishes]

    lines = await asyncio.gather(*[buy_on_one_connection() for _ in range(CONNECTIONS)])
    answers = [answer for line in lines for answer in line]
    assert Counter(answer.status for answer in answers) == {200: UNITS, 409: ATTEMPTS - UNITS}
    assert len({a.json()["reservation_id"] for a in answers if a.status == 200}) == UNITS
    assert {a.json()["reason"] for a in answers if a.status == 409} == {"insufficient_inventory"}
    assert shop.counts() == (0, UNITS, 0, UNITS)


async def test_fifty_parallel_requests_with_one_key_have_one_effect_and_identical_answers(
    server: Server, shop: Shop
) -> None:
    shop.provision(100)

    async def click() -> Answer:
        async with line_to(server) as line:
            wish = {"owner_id": "ada", "quantity": 2, "idempotency_key": "double-click"}
            return await line.ask("POST", f"{shop.path}/reserve", wish)

    answers = await asyncio.gather(*[click() for _ in range(50)])
    assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}
    assert Counter(answer.headers.get("idempotency-replayed") for answer in answers) == {None: 1, "true": 49}
    assert shop.counts() == (98, 2, 0, 100)


async def test_a_reservation_ends_once_when_many_race_to_end_it(server: Server, shop: Shop) -> None:
    shop.provision(1)
    path = f"/v1/reservations/{shop.hold()}"

    async def race(method: str, path: str) -> Answer:
        async with line_to(server) as line:
            return await line.ask(method, path)

    asked = [race("POST", f"{path}/confirm") if n % 2 else race("DELETE", path) for n in range(20)]
    answers = await asyncio.gather(*asked)
    confirms, cancels = answers[1::2], answers[::2]
    won, lost, status = (confirms, cancels, 200) if shop.counts()[2] else (cancels, confirms, 204)
    assert {answer.status for answer in won} == {status}
    assert {answer.status for answer in lost} == {409}
    assert shop.counts() in {(0, 0, 1, 1), (1, 0, 0, 1)}
