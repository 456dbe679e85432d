"""Reads go to replicas that are fit, and never say less than was known when they began."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from postgres_replica import Replicated, replicated
from processes import ask, make_pool, serving, stock

from holdfast.lab.load.engines import free_port

UNITS = 100_000


@asynccontextmanager
async def selling(directory: Path) -> AsyncIterator[tuple[Replicated, httpx.AsyncClient]]:
    with replicated(directory, port=free_port()) as pair:
        replica = f"postgresql://postgres:@127.0.0.1:{pair.replica.port}/postgres"
        primary = f"postgresql://postgres:@127.0.0.1:{pair.primary.port}/postgres"
        settings = {"database_url": primary, "database_replica_urls": replica}
        async with serving(directory / "data", **settings) as holdfast, holdfast.client() as client:
            await make_pool(client, UNITS)
            yield pair, client


async def replica_check(client: httpx.AsyncClient) -> dict[str, object]:
    checks = (await client.get("/healthz/ready")).json()["checks"]
    found: dict[str, object]
    [found] = [check for name, check in checks.items() if name.startswith("replica ")]
    return found


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - another process does it, which raises no event here
            await asyncio.sleep(0.02)


async def until_judged(client: httpx.AsyncClient, reason: str | None) -> None:
    async def is_judged() -> bool:
        return (await replica_check(client)).get("reason") == reason

    await until(is_judged)


async def reads_by(client: httpx.AsyncClient, source: str) -> float:
    lines, name = (await client.get("/metrics")).text.splitlines(), f'holdfast_ledger_reads_total{{source="{source}"}}'
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)


async def reserve_and_look(client: httpx.AsyncClient, number: int) -> None:
    """Whatever is asked after a write was acknowledged has it."""
    answer = await ask(client, f"key-{number}")
    assert answer.status_code == 200, answer.text
    reservation_id, token = answer.json()["reservation_id"], answer.headers["holdfast-seen"]
    found = await client.get(f"/v1/reservations/{reservation_id}")
    assert found.status_code == 200, found.text
    for headers in ({}, {"Holdfast-Seen": token}, {"Holdfast-Seen": "made-up"}):
        history = await client.get(f"/v1/reservations/{reservation_id}/history", headers=headers)
        assert [event["type"] for event in history.json()["events"]] == ["reservation.created"]
        listed = await client.get("/v1/reservations?limit=1", headers=headers)
        assert listed.json()["data"][0]["reservation_id"] >= reservation_id
    assert (await stock(client))["held"] > number


@pytest.mark.slow
async def test_reads_go_to_a_replica_and_have_every_write_that_was_acknowledged_before(tmp_path: Path) -> None:
    async with selling(tmp_path) as (_, client):
        await until_judged(client, None)
        before = await reads_by(client, "replica")
        for number in range(30):
            await reserve_and_look(client, number)
        assert await reads_by(client, "replica") > before
        metrics = (await client.get("/metrics")).text
        assert "holdfast_replica_lag_seconds{" in metrics
        health = (await client.get("/v1/ops/health")).json()
        [shown] = [one for one in health["data"] if one["name"].startswith("replica ")]
        assert shown["kind"] == "store"
        assert "ms behind" in shown["detail"]


@pytest.mark.slow
async def test_a_replica_whose_replay_stands_still_never_hides_a_write_and_is_left_out(tmp_path: Path) -> None:
    async with selling(tmp_path) as (pair, client):
        await until_judged(client, None)
        pair.replica.sql("SELECT pg_wal_replay_pause()")
        # From the first one on, while nobody knows yet that it stands still.
        for number in range(20):
            await reserve_and_look(client, number)
        await until_judged(client, "lag")
        assert (await client.get("/healthz/ready")).json()["status"] == "degraded"
        await reserve_and_look(client, 20)
        pair.replica.sql("SELECT pg_wal_replay_resume()")
        await until_judged(client, None)
        await reserve_and_look(client, 21)


@pytest.mark.slow
async def test_a_replica_that_was_promoted_or_is_gone_is_not_read(tmp_path: Path) -> None:
    async with selling(tmp_path) as (pair, client):
        await until_judged(client, None)
        pair.replica.sql("SELECT pg_promote()")
        for number in range(5):
            await reserve_and_look(client, number)
        await until_judged(client, "not_a_replica")
        pair.replica.kill()
        await reserve_and_look(client, 5)
        await until_judged(client, "no_answer")
        await reserve_and_look(client, 6)
