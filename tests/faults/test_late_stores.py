"""A store that is not up when a server starts: it listens, says that it waits, and serves once the store is there."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from postgres_process import PostgresProcess, own_postgres
from processes import HoldfastProcess, WorkerProcess, ask, make_pool, until

from valkeys import running_valkey

pytestmark = pytest.mark.usefixtures("postgres_url")


async def until_waiting(holdfast: HoldfastProcess, client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60.0):
        while True:
            try:
                ready = await client.get("/healthz/ready")
                break
            except httpx.TransportError:
                assert holdfast.process.poll() is None, holdfast.log.read_text()
                await asyncio.sleep(0.05)
    assert ready.status_code == 503
    assert ready.json()["checks"]["selling"]["reason"] == "waiting_for_store"
    assert (await client.get("/healthz/live")).json() == {"status": "live"}
    refused = await ask(client, "early")
    assert (refused.status_code, refused.json()["reason"]) == (503, "not_ready")


async def serves_once_it_is_there(holdfast: HoldfastProcess, start_store: Callable[[], None]) -> None:
    holdfast.launch()
    try:
        async with holdfast.client() as client:
            await until_waiting(holdfast, client)
            start_store()
            await holdfast.until_ready()
            await make_pool(client, 5)
            assert (await ask(client, "k")).status_code == 200
        assert await holdfast.stop() == 0
    finally:
        holdfast.end()


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "two workers"])
async def test_a_server_waits_for_its_postgres_and_then_serves(tmp_path: Path, options: tuple[str, ...]) -> None:
    with own_postgres() as postgres:
        postgres.kill()
        holdfast = HoldfastProcess(tmp_path / "data", *options, database_url=postgres.url)
        await serves_once_it_is_there(holdfast, postgres.start)


async def test_a_server_waits_for_its_redis_and_then_serves(tmp_path: Path, postgres_database_url: str) -> None:
    with running_valkey(tmp_path / "valkey") as valkey:
        valkey.kill()
        holdfast = HoldfastProcess(tmp_path / "data", database_url=postgres_database_url, redis_url=valkey.url)
        await serves_once_it_is_there(holdfast, valkey.start)


async def test_a_worker_waits_for_its_postgres_too(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        postgres.kill()
        worker = WorkerProcess(tmp_path / "data", database_url=postgres.url)
        worker.launch()
        try:
            await until(lambda: "waiting_for_store" in worker.log.read_text())
            postgres.start()
            await until(lambda: "Working on" in worker.log.read_text())
            assert await worker.stop() == 0
        finally:
            worker.end()


async def _away(postgres: PostgresProcess, data: Path, *options: str, timeout_s: str) -> HoldfastProcess:
    postgres.kill()
    holdfast = HoldfastProcess(data, *options, database_url=postgres.url, start_timeout_s=timeout_s)
    holdfast.launch()
    return holdfast


async def test_a_server_that_waits_can_be_stopped(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        holdfast = await _away(postgres, tmp_path / "data", timeout_s="600")
        try:
            async with holdfast.client() as client:
                await until_waiting(holdfast, client)
            assert await holdfast.stop() == 0
        finally:
            holdfast.end()
            postgres.start()


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "two workers"])
async def test_a_server_gives_up_after_the_time_it_was_given(tmp_path: Path, options: tuple[str, ...]) -> None:
    with own_postgres() as postgres:
        holdfast = await _away(postgres, tmp_path / "data", *options, timeout_s="2")
        try:
            assert await holdfast.exit_status() == 1
            assert "Traceback" not in holdfast.log.read_text()
        finally:
            holdfast.end()
            postgres.start()
