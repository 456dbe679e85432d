"""PostgreSQL stops answering: callers are told so in time, what needs no database goes on, and it recovers."""

import asyncio
import signal
from pathlib import Path

import asyncpg
import httpx
import pytest
from postgres_process import own_postgres
from processes import HoldfastProcess, ask, make_pool, serving, stock

pytestmark = pytest.mark.usefixtures("postgres_url")


async def test_a_frozen_postgres_is_a_503_in_time_and_then_at_once_and_a_thawed_one_serves_again(
    tmp_path: Path,
) -> None:
    with own_postgres() as postgres:
        async with serving(tmp_path / "data", database_url=postgres.url) as holdfast, holdfast.client() as client:
            await make_pool(client, 100)
            await open_sale(client)
            first = await ask(client, "before")
            postgres.signal_all(signal.SIGSTOP)
            frozen = asyncio.gather(*[ask(client, f"during-{n}") for n in range(20)])
            live = await client.get("/healthz/live")
            assert live.status_code == 200
            assert {answer.status_code for answer in await frozen} == {503}

            asked = [ask(client, f"during-{n}") for n in range(20)]
            behind = await asyncio.gather(client.get("/healthz/ready"), stock_answer(client), *asked)
            assert {(answer.status_code, answer.json()["reason"]) for answer in behind} == {(503, "not_ready")}
            for page in ("/v1/sales/drop/now", "/v1/sales/drop", "/docs", "/healthz/live"):
                assert (await get_openly(holdfast, page)).status_code == 200

            postgres.signal_all(signal.SIGCONT)
            await holdfast.until_ready()
            assert (await ask(client, "before")).json() == first.json()
            again = await asyncio.gather(*[ask(client, f"during-{n}") for n in range(20)])
            assert {answer.status_code for answer in again} == {200}
            assert (await stock(client))["held"] == 21


async def test_connections_that_are_all_held_are_a_503_in_time_and_the_server_is_not_taken_for_dead(
    tmp_path: Path,
) -> None:
    with own_postgres() as postgres:
        settings = {"database_url": postgres.url, "database_connections": "2", "queue_timeout_ms": "2000"}
        async with serving(tmp_path / "data", "--no-background", **settings) as holdfast, holdfast.client() as client:
            await make_pool(client, 100)
            other = await asyncpg.connect(postgres.url)
            async with other.transaction():
                await other.execute("LOCK TABLE pools")
                held = await asyncio.gather(*[ask(client, f"k{n}") for n in range(5)])
                assert {answer.status_code for answer in held} == {503}
                assert "dependency_lost" not in holdfast.log.read_text()
            await other.close()
            assert (await ask(client, "after")).status_code == 200


async def open_sale(client: httpx.AsyncClient) -> None:
    terms = {"sale_id": "drop", "sku_id": "drop", "name": "Drop", "total_units": 5, "checkout": "cart"}
    price = {"amount": 1, "currency": "EUR"}
    more = {"price": price, "payment": "wallet", "starts_at": "2020-01-01T00:00:00Z"}
    assert (await client.post("/v1/sales", json=terms | more)).status_code == 201
    assert (await client.get("/v1/sales/drop/now")).status_code == 200


async def stock_answer(client: httpx.AsyncClient) -> httpx.Response:
    return await client.get("/v1/inventory/sku/available")


async def get_openly(holdfast: HoldfastProcess, path: str) -> httpx.Response:
    """As somebody who shows no credentials."""
    async with httpx.AsyncClient(base_url=holdfast.url, timeout=30.0, verify=False) as client:
        return await client.get(path)


async def until_received(holdfast: HoldfastProcess) -> None:
    """Those who ask later and are answered show that those before them were heard."""
    for _ in range(20):
        async with holdfast.client() as client:
            assert (await client.get("/healthz/live")).status_code == 200


@pytest.mark.parametrize("asked", [False, True], ids=["idle", "with requests under way"])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_frozen_postgres_cannot_keep_a_server_from_stopping(tmp_path: Path, workers: str, asked: bool) -> None:
    with own_postgres() as postgres:
        options = ("--workers", workers)
        async with (
            serving(tmp_path / "data", *options, database_url=postgres.url) as holdfast,
            holdfast.client() as client,
        ):
            await make_pool(client, 100)
            postgres.signal_all(signal.SIGSTOP)
            waiting = [asyncio.create_task(ask(client, f"k{n}")) for n in range(3 if asked else 0)]
            await until_received(holdfast)
            assert await holdfast.stop() == 0
            assert {answer.status_code for answer in await asyncio.gather(*waiting)} <= {503}
            assert '"event": "stopped"' in holdfast.log.read_text().splitlines()[-1]
            postgres.signal_all(signal.SIGCONT)
