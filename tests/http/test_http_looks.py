"""Looks at reservations over HTTP, many at once and however their address is written."""

import asyncio

import httpx
import pytest
from http_calling import Shop, body_of, problem_of
from http_serving import SERVICE_KEY, Server

pytest_plugins = ("http_fixtures",)

CROWD = 60


async def test_who_is_told_what_became_of_a_hold_sees_it_so_however_many_look(server: Server, shop: Shop) -> None:
    shop.provision(CROWD)
    holds = [shop.hold(f"owner-{n}") for n in range(CROWD)]

    async def end(client: httpx.AsyncClient, number: int) -> tuple[int, str, str]:
        path = f"/v1/reservations/{holds[number]}"
        is_sold = number % 2 == 0
        ended = await (client.post(f"{path}/confirm") if is_sold else client.delete(path))
        shown = body_of(await client.get(path))
        return ended.status_code, shown["owner_id"], shown["status"]

    headers = {"Authorization": f"Bearer {SERVICE_KEY}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30.0, trust_env=False) as client:
        seen = await asyncio.gather(*[end(client, number) for number in range(CROWD)])
    assert seen == [
        (200, f"owner-{n}", "confirmed") if n % 2 == 0 else (204, f"owner-{n}", "cancelled") for n in range(CROWD)
    ]


def test_an_address_is_the_same_however_it_is_written(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    held = shop.reserve().json()
    written = held["reservation_id"].replace("_", "%5F")
    for path in (f"/v1/reservations/{written}", f"/v1/reservations/{written}?any=thing"):
        assert body_of(embedded.client.get(path)) == held
    for path in (f"/v1/reservations/{written}/", f"/v1//reservations/{written}", f"/v1/reservations/{written}%2F"):
        problem_of(embedded.client.get(path), 404, "not_found")
    for path in (f"/v1/reservations/{written}%20", f"/v1/reservations/{written.upper()}"):
        problem_of(embedded.client.get(path), 404, "reservation_not_found")
    confirmed = body_of(embedded.client.post(f"/v1/reservations/{written}/confirm"))
    assert confirmed == held | {"status": "confirmed", "confirmed_at": confirmed["confirmed_at"]}


@pytest.mark.parametrize(("action", "allowed"), [("", "DELETE, GET"), ("/confirm", "POST"), ("/extend", "POST")])
def test_a_hold_that_is_there_knows_the_same_methods_as_one_that_is_not(
    embedded: Server, action: str, allowed: str
) -> None:
    shop = embedded.shop()
    shop.provision(1)
    path = f"/v1/reservations/{shop.hold()}{action}"
    for method in {"GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE"} - set(allowed.split(", ")):
        answer = embedded.client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert shop.counts() == (0, 1, 0, 1)
