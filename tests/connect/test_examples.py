"""The shops of `examples/`, started as their README says, in front of a real room: who has a pass comes in."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from connect_world import Key, claims
from http_tokens import hmac_token
from processes import HoldfastProcess, serving

from holdfast.lab.load.engines import free_port
from holdfast.room.tokens import Pass, Tokens
from holdfast.runtime.signing import parse_signing_keys

EXAMPLES = Path(__file__).parents[2] / "examples"
BUYER_SECRET = "b0ye45ec" * 4
OLD, NEW = "old:" + "5" * 32, "new:" + "7" * 32
FASTAPI = ["-m", "uvicorn", "--app-dir", str(EXAMPLES / "fastapi_shop"), "shop:app", "--port"]
DJANGO = [str(EXAMPLES / "django_shop" / "shop.py"), "runserver", "--noreload"]
PATIENCE_S = 60.0


@contextmanager
def shop_process(arguments: list[str], room: HoldfastProcess, log: Path) -> Iterator[httpx.AsyncClient]:
    port = free_port()
    environment = dict(os.environ) | {"HOLDFAST_URL": room.url, "SALE_ID": "drop", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments, str(port)], env=environment, stdout=output, stderr=output
        )
    try:
        yield httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False, trust_env=False, timeout=30.0)
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def shops(room: HoldfastProcess, directory: Path) -> AsyncIterator[list[httpx.AsyncClient]]:
    with (
        shop_process(FASTAPI, room, directory / "fastapi.log") as fastapi,
        shop_process(DJANGO, room, directory / "django.log") as django,
    ):
        async with fastapi, django:
            for client in (fastapi, django):
                await until_open(client)
            yield [fastapi, django]


async def until_open(shop: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert (await shop.get("/")).json() == {"shop": "open to all"}
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


async def make_sales(room: HoldfastProcess) -> None:
    async with room.client() as client:
        for name in ("drop", "other"):
            terms = {
                "sale_id": name,
                "sku_id": name,
                "name": "Drop",
                "total_units": 100,
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": "2020-01-01T00:00:00Z",
                "payment": "external",
                "room": {"mode": "fifo", "pass_seconds": 600},
            }
            assert (await client.post("/v1/sales", json=terms)).status_code == 201


async def pass_of(room: HoldfastProcess, buyer_id: str, sale_id: str = "drop") -> str:
    """Joins, waits for their turn, and is admitted."""
    token = hmac_token({"sub": buyer_id, "exp": claims()["exp"] + 3_600}, secret=BUYER_SECRET)
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{room.url}/v1/sales/{sale_id}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30.0, verify=False) as client:
        headers["Holdfast-Ticket"] = (await client.post("/queue")).json()["ticket"]
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await client.post("/admission", headers=headers)).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # It is another process that calls people.
        return str(answer.json()["pass"])


async def visit(shop: httpx.AsyncClient, token: str | None, buyer_id: str = "ada", **headers: str) -> httpx.Response:
    shown = {} if token is None else {"Holdfast-Pass": token}
    return await shop.get("/checkout", headers={"X-Shop-Buyer": buyer_id} | shown | headers)


async def is_refused(shop: httpx.AsyncClient, token: str | None, buyer_id: str = "ada") -> bool:
    answer = await visit(shop, token, buyer_id)
    return (answer.status_code, answer.json()["reason"]) == (429, "admission_required")


@pytest.mark.slow
async def test_both_shops_let_in_who_has_a_pass_and_nobody_else_before_and_after_keys_are_rotated(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data", buyer_secret=BUYER_SECRET, signing_key=OLD) as room:
        await make_sales(room)
        given, others = await pass_of(room, "ada"), await pass_of(room, "ada", "other")
        async with shops(room, tmp_path) as open_shops:
            for shop in open_shops:
                await check_shop(shop, room, given, others)
            await room.stop()
            room.settings["signing_key"] = f"{NEW},{OLD}"
            await room.start()
            newer = await pass_of(room, "bob")
            for shop in open_shops:
                assert (await visit(shop, given)).json()["buyer"] == "ada"
                # Keys are fetched again at most every ten seconds, so that made-up key ids are no flood.
                async with asyncio.timeout(PATIENCE_S):
                    while (answer := await visit(shop, newer, "bob")).status_code != 200:  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
                assert answer.json() == {"buyer": "bob", "sale": "drop"}


async def check_shop(shop: httpx.AsyncClient, room: HoldfastProcess, given: str, others: str) -> None:
    sent: httpx.Response = await visit(shop, None, Accept="text/html")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{room.url}/s/drop?return_to=%2Fcheckout")
    assert (await visit(shop, given)).json() == {"buyer": "ada", "sale": "drop"}
    assert (await visit(shop, None, Cookie=f"holdfast_pass={given}")).json()["buyer"] == "ada"
    refused: dict[str, tuple[str | None, str]] = {
        "none": (None, "ada"),
        "another buyer's": (given, "eve"),
        "another sale's": (others, "ada"),
        "forged": (Key("old-pass").sign(claims()), "ada"),
        "forged under an unknown key": (Key("theirs").sign(claims()), "ada"),
        "cut": (given[:-6], "ada"),
        "expired": (expired(), "ada"),
    }
    found: dict[str, Any] = {name: await is_refused(shop, *shown) for name, shown in refused.items()}
    assert found == dict.fromkeys(refused, True)


def expired() -> str:
    """Signed with the room's own key, a day ago."""
    now = claims()["iat"]
    return Tokens(parse_signing_keys(OLD)).sign_pass(Pass("ada", "drop", "p", now - 86_400, now - 86_000))
