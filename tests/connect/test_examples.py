"""The shops of `examples/`, started as their README says, in front of a real room: who has a pass comes in."""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from connect_installed import with_connect
from connect_world import Key, claims
from http_tokens import hmac_token
from processes import SERVICE_KEY, HoldfastProcess, serving

from holdfast.lab.load.engines import free_port
from holdfast.room.tokens import Pass, Tokens
from holdfast.runtime.signing import parse_signing_keys

EXAMPLES = Path(__file__).parents[2] / "examples"
BUYER_SECRET = "b0ye45ec" * 4
OLD, NEW = "old:" + "5" * 32, "new:" + "7" * 32
PATIENCE_S = 60.0


def by_header(buyer: str) -> dict[str, str]:
    return {"X-Shop-Buyer": buyer}


def by_session(buyer: str) -> dict[str, str]:
    return {"Cookie": f"shop_session={buyer}"}


def customer(buyer: str) -> str:
    """The FastAPI shop's name for the owner of a session."""
    return f"customer-{hashlib.sha256(buyer.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Example:
    """How its README starts it, how it knows its visitors, and what an admitted one sees."""

    name: str
    command: list[str]
    signed_in: Callable[[str], dict[str, str]] = by_header
    buyer_id: Callable[[str], str] = str
    greeting: str = '"buyer"'


SHOPS = [
    Example(
        "fastapi",
        [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES / "fastapi_shop"), "shop:app", "--port"],
        by_session,
        customer,
        "Reserved for you",
    ),
    Example("django", [sys.executable, str(EXAMPLES / "django_shop" / "shop.py"), "runserver", "--noreload"]),
    Example("node", ["node", str(EXAMPLES / "node_shop" / "shop.mjs")]),
]


@dataclass(frozen=True)
class OpenShop:
    example: Example
    client: httpx.AsyncClient
    origin: str

    async def visit(self, token: str | None, buyer: str = "ada", **headers: str) -> httpx.Response:
        own = self.example.signed_in(buyer)
        cookie = "; ".join(filter(None, (own.pop("Cookie", ""), headers.pop("Cookie", ""))))
        shown = ({} if token is None else {"Holdfast-Pass": token}) | ({"Cookie": cookie} if cookie else {})
        return await self.client.get("/checkout", headers=own | shown | headers)

    async def lets_in(self, token: str | None, buyer: str = "ada", **headers: str) -> bool:
        answer = await self.visit(token, buyer, **headers)
        return answer.status_code == 200 and self.example.greeting in answer.text

    async def refuses(self, token: str | None, buyer: str = "ada") -> bool:
        answer = await self.visit(token, buyer)
        return (answer.status_code, answer.json()["reason"]) == (429, "admission_required")


@contextmanager
def shop_process(example: Example, room: HoldfastProcess, directory: Path) -> Iterator[OpenShop]:
    if shutil.which(example.command[0]) is None:
        pytest.fail(f"this test needs {example.command[0]}: `make node` installs it (apt-get install nodejs)")
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    own = {"HOLDFAST_URL": room.url, "SHOP_URL": origin, "SALE_ID": "drop", "PYTHONUNBUFFERED": "1"}
    keys = {"HOLDFAST_SERVICE_KEY": SERVICE_KEY, "HOLDFAST_BUYER_SECRET": BUYER_SECRET}
    directory.mkdir()
    environment = with_connect(directory) | own | keys
    with (directory / "log").open("wb") as output:
        process = subprocess.Popen([*example.command, str(port)], env=environment, stdout=output, stderr=output)
    try:
        client = httpx.AsyncClient(base_url=origin, verify=False, trust_env=False, timeout=30.0)
        yield OpenShop(example, client, origin)
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def shops(room: HoldfastProcess, directory: Path) -> AsyncIterator[list[OpenShop]]:
    async with AsyncExitStack() as stack:
        started = [stack.enter_context(shop_process(one, room, directory / one.name)) for one in SHOPS]
        for shop in started:
            await stack.enter_async_context(shop.client)
            await until_open(shop.client)
        yield started


async def until_open(shop: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert (await shop.get("/")).status_code == 200
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


def sale_of_readme() -> dict[str, Any]:
    """With an address of a checkout that the server of these tests need not know."""
    found = re.search(r"-d '(\{.*?\})'\n", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    assert found is not None
    terms: dict[str, Any] = json.loads(found[1])
    del terms["checkout_url"]
    return terms


async def make_sales(room: HoldfastProcess) -> None:
    async with room.client() as client:
        for name in ("drop", "other"):
            given = {"sale_id": name, "sku_id": name, "room": {"mode": "fifo", "pass_seconds": 600}}
            answer = await client.post("/v1/sales", json=sale_of_readme() | given)
            assert answer.status_code == 201, answer.text


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


async def passes_of(room: HoldfastProcess, buyer: str, sale_id: str = "drop") -> dict[str, str]:
    """By shop, as each has a name of its own for a buyer."""
    ids = {shop.name: shop.buyer_id(buyer) for shop in SHOPS}
    given = {buyer_id: await pass_of(room, buyer_id, sale_id) for buyer_id in set(ids.values())}
    return {name: given[buyer_id] for name, buyer_id in ids.items()}


@pytest.mark.slow
async def test_the_checkout_of_the_whole_loop_asks_for_money_once(tmp_path: Path) -> None:
    """A repeated reserve answers as the first time did, "active", whatever has become of the reservation since."""
    fastapi = SHOPS[0]
    async with serving(tmp_path / "data", buyer_secret=BUYER_SECRET, signing_key=OLD) as room:
        await make_sales(room)
        given = await pass_of(room, customer("ada"))
        with shop_process(fastapi, room, tmp_path / fastapi.name) as shop:
            async with shop.client:
                await until_open(shop.client)
                checkout = await shop.visit(given)
                action = re.search(r"action='([^']+)'", checkout.text)
                assert action is not None
                session = by_session("ada") | {"Holdfast-Pass": given}
                paid = await shop.client.post(action[1], headers=session)
                again = await shop.visit(given)
                twice = await shop.client.post(action[1], headers=session)
    order = paid.headers["location"]
    assert [(answer.status_code, answer.headers["location"]) for answer in (paid, again, twice)] == [(303, order)] * 3


@pytest.mark.slow
async def test_every_shop_lets_in_who_has_a_pass_and_nobody_else_before_and_after_keys_are_rotated(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data", buyer_secret=BUYER_SECRET, signing_key=OLD) as room:
        await make_sales(room)
        given, others = await passes_of(room, "ada"), await passes_of(room, "ada", "other")
        async with shops(room, tmp_path) as open_shops:
            for shop in open_shops:
                await check_shop(shop, room, given[shop.example.name], others[shop.example.name])
            await room.stop()
            room.settings["signing_key"] = f"{NEW},{OLD}"
            await room.start()
            newer = await passes_of(room, "bob")
            for shop in open_shops:
                name = shop.example.name
                assert await shop.lets_in(given[name])
                # Keys are fetched again at most every ten seconds, so that made-up key ids are no flood.
                async with asyncio.timeout(PATIENCE_S):
                    while not await shop.lets_in(newer[name], "bob"):  # noqa: ASYNC110
                        await asyncio.sleep(0.2)


async def check_shop(shop: OpenShop, room: HoldfastProcess, given: str, others: str) -> None:
    sent = await shop.visit(None, Accept="text/html")
    back = quote(f"{shop.origin}/checkout", safe="")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{room.url}/s/drop?return_to={back}")
    assert await shop.lets_in(given)
    assert await shop.lets_in(None, Cookie=f"holdfast_pass={given}")
    returned = await shop.client.post("/checkout?a=1&holdfast_return=1", data={"holdfast_pass": given})
    assert (returned.status_code, returned.headers["location"]) == (303, "/checkout?a=1")
    shop.client.cookies.clear()
    refused: dict[str, tuple[str | None, str]] = {
        "none": (None, "ada"),
        "another buyer's": (given, "eve"),
        "another sale's": (others, "ada"),
        "forged": (Key("old-pass").sign(claims()), "ada"),
        "forged under an unknown key": (Key("theirs").sign(claims()), "ada"),
        "cut": (given[:-6], "ada"),
        "expired": (expired(), "ada"),
    }
    found: dict[str, Any] = {name: await shop.refuses(*shown) for name, shown in refused.items()}
    assert found == dict.fromkeys(refused, True)


def expired() -> str:
    """Signed with the room's own key, a day ago."""
    now = claims()["iat"]
    return Tokens(parse_signing_keys(OLD)).sign_pass(Pass("ada", "drop", "p", now - 86_400, now - 86_000))
