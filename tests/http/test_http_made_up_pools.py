"""Reservations and pools that somebody made up: asking about them leaves nothing behind."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import httpx
from http_calling import body_of, eventually
from http_serving import Server
from http_tokens import buyer_token
from redis import Redis
from sqlalchemy import Connection, func, select

from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.schema import metadata
from holdfast.ledger.tables.stock import pool_counts

pytest_plugins = ("http_fixtures",)

T = TypeVar("T")
HOW_MANY = 20


def in_ledger(server: Server, work: Callable[[Connection], T]) -> T:
    url = server.environment.get("HOLDFAST_DATABASE_URL") or f"sqlite:///{server.directory}/data/holdfast.db"

    async def run() -> T:
        database = open_database(url)
        try:
            return await database.read(work)
        finally:
            await database.close()

    return asyncio.run(run())


def pools_known(server: Server) -> set[tuple[str, str]]:
    """Every pool that any table has heard of."""

    def work(connection: Connection) -> set[tuple[str, str]]:
        tables = [table for table in metadata.sorted_tables if "sku_id" in table.c]
        return {
            (table.name, sku_id)
            for table in tables
            for sku_id in connection.execute(select(table.c.sku_id).distinct()).scalars()
        }

    return in_ledger(server, work)


def redis_keys(server: Server, mark: str) -> list[Any]:
    url = server.environment.get("HOLDFAST_REDIS_URL")
    if url is None:
        return []
    with Redis.from_url(url) as client:
        found: list[Any] = list(client.scan_iter(f"*{mark}*"))
        return found


def calls(client: httpx.Client, sku_id: str) -> list[httpx.Response]:
    path = f"/v1/reservations/rsv_{'0' * 32}_{sku_id}"
    return [
        client.delete(path),
        client.post(f"{path}/confirm"),
        client.post(f"{path}/extend", json={"ttl_seconds": 5}),
        client.get(path),
    ]


def wait_until_counts_are_stored(server: Server) -> None:
    """What is counted now is stored together with all that was counted before."""
    shop = server.shop()
    shop.provision(1)
    body_of(shop.reserve())
    mine = select(func.count()).where(pool_counts.c.sku_id == shop.sku_id)
    eventually(lambda: in_ledger(server, lambda c: c.execute(mine).scalar()))


def test_a_made_up_pool_leaves_nothing_behind(server: Server) -> None:
    mark = f"made-up-{uuid4().hex[:8]}"
    with server.connect(buyer_token("mallory")) as mallory:
        for number in range(HOW_MANY):
            sku_id = f"{mark}-{number}"
            answers = calls(mallory, sku_id) + calls(server.client, sku_id)
            answers.append(server.client.get(f"/v1/inventory/{sku_id}/available"))
            answers.append(
                server.client.post(f"/v1/inventory/{sku_id}/reserve", json={"owner_id": "ada", "quantity": 1})
            )
            assert {answer.status_code for answer in answers} == {404}
    wait_until_counts_are_stored(server)
    left: list[Any] = [one for one in pools_known(server) if one[1].startswith(mark)]
    assert left == []
    assert redis_keys(server, mark) == []
