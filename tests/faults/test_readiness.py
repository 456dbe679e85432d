"""Ready tells the truth by writing: it names what does not work within seconds, sells on where it can, and recovers."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from postgres_process import own_postgres
from processes import HoldfastProcess, WorkerProcess, ask, make_pool, serving, stock, until_expired
from redis_site import redis_site

from quiet_time import QuietTime

pytestmark = pytest.mark.usefixtures("postgres_url")

# Three seconds are promised; the rest is for the test itself.
NOTICED_S, PATIENCE_S = 10.0, 60.0


async def readiness(client: httpx.AsyncClient) -> tuple[int, dict[str, Any]]:
    answer = await client.get("/healthz/ready")
    body: dict[str, Any] = answer.json()
    return answer.status_code, body


async def until_check(client: httpx.AsyncClient, name: str, reason: str | None) -> tuple[int, dict[str, Any]]:
    """The first answer in which a check has this reason, or passes."""
    began, quiet, found = time.monotonic(), QuietTime(), None
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status, body = await readiness(client)
            found = body["checks"].get(name, {})
            if found.get("reason") == reason and found.get("ok") is (reason is None):
                print(f"{name}: {reason} after {time.monotonic() - began:.2f} s")
                assert quiet.seconds < NOTICED_S
                return status, body
            await asyncio.sleep(0.05)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def unlink(data: Path) -> None:
    (data / "holdfast.db").unlink()


def move_away(data: Path) -> None:
    (data / "holdfast.db").rename(data / "moved.db")


def move_directory(data: Path) -> None:
    data.rename(data.with_name("moved"))


def replace(data: Path) -> None:
    copy = data / "copy.db"
    with closing(sqlite3.connect(data / "holdfast.db")) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.replace(data / "holdfast.db")


def unlink_log(data: Path) -> None:
    (data / "holdfast.db-wal").unlink()


def empty_log(data: Path) -> None:
    """As somebody does who needs room on the disk."""
    os.truncate(data / "holdfast.db-wal", 0)


def halve_log(data: Path) -> None:
    log = data / "holdfast.db-wal"
    os.truncate(log, log.stat().st_size // 2)


def empty(data: Path) -> None:
    os.truncate(data / "holdfast.db", 0)


def delete_locks(data: Path) -> None:
    for lock in data.glob("*.lock"):
        lock.unlink()


@pytest.mark.parametrize("spoil", [unlink, move_away, move_directory, replace, unlink_log, empty_log, halve_log, empty])
async def test_no_hold_is_acknowledged_once_the_database_file_is_gone(
    data: Path, spoil: Callable[[Path], None]
) -> None:
    async with serving(data) as holdfast, holdfast.client() as client:
        await make_pool(client, 100)
        assert (await ask(client, "before")).status_code == 200
        spoil(data)
        for n in range(10):
            answer = await ask(client, f"k{n}")
            assert (answer.status_code, answer.json()["reason"]) == (503, "not_ready"), answer.text
        status, _ = await until_check(client, "selling", "file_replaced")
        assert status == 503


async def test_a_database_file_that_is_put_back_is_used_again(data: Path) -> None:
    async with serving(data) as holdfast, holdfast.client() as client:
        await make_pool(client, 100)
        first = await ask(client, "before")
        move_away(data)
        await until_check(client, "selling", "file_replaced")
        (data / "moved.db").rename(data / "holdfast.db")
        assert (await until_check(client, "selling", None))[0] == 200
        assert (await ask(client, "before")).json() == first.json()
        assert (await ask(client, "after")).status_code == 200
        holdfast.kill()
        await holdfast.start()
        assert (await stock(client))["held"] == 2


async def test_a_database_that_sqlite_itself_makes_smaller_is_used_without_a_refusal(data: Path) -> None:
    """As `holdfast archive` does beside a server."""
    async with serving(data) as holdfast, holdfast.client() as client:
        await make_pool(client, 100)
        with closing(sqlite3.connect(data / "holdfast.db")) as connection:
            connection.execute("CREATE TABLE ballast AS SELECT randomblob(1000000)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            assert (await ask(client, "before")).status_code == 200
            large = (data / "holdfast.db").stat().st_size
            connection.execute("DROP TABLE ballast")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (data / "holdfast.db").stat().st_size < large
        for n in range(10):
            assert (await ask(client, f"k{n}")).status_code == 200
        holdfast.kill()
        await holdfast.start()
        assert (await stock(client))["held"] == 11


async def test_deleting_the_lock_file_lets_no_second_server_in(data: Path) -> None:
    async with serving(data):
        delete_locks(data)
        second = HoldfastProcess(data)
        second.launch()
        try:
            assert await second.exit_status() == 2
        finally:
            second.end()
        assert "already uses" in second.log.read_text()


async def test_a_postgres_that_is_read_only_is_named_and_recovers(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with serving(tmp_path / "data", database_url=postgres.url) as holdfast, holdfast.client() as client:
            await make_pool(client, 100)
            other = await asyncpg.connect(postgres.url)
            await other.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            await other.execute("SELECT pg_reload_conf()")
            status, _ = await until_check(client, "selling", "store_read_only")
            assert status == 503
            refused = await asyncio.gather(*[ask(client, f"k{n}") for n in range(10)])
            assert {answer.status_code for answer in refused} == {503}
            # It says the same for as long as it lasts.
            for _ in range(20):
                assert (await readiness(client))[0] == 503
                await asyncio.sleep(0.1)
            await other.execute("SET default_transaction_read_only = off")
            await other.execute("ALTER SYSTEM RESET default_transaction_read_only")
            await other.execute("SELECT pg_reload_conf()")
            await other.close()
            assert (await until_check(client, "selling", None))[0] == 200
            assert (await ask(client, "after")).status_code == 200


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_server_names_the_worker_that_is_missing_and_sells_on(
    tmp_path: Path, postgres_database_url: str, fault: signal.Signals
) -> None:
    settings = {"database_url": postgres_database_url}
    worker = WorkerProcess(tmp_path / "worker", **settings)
    async with serving(tmp_path / "data", "--no-background", **settings) as holdfast, holdfast.client() as client:
        status, body = await until_check(client, "settling", "no_worker")
        assert (status, body["status"], body["checks"]["selling"]["ok"]) == (200, "degraded", True)
        try:
            await worker.start()
            async with asyncio.timeout(60.0):
                while (await readiness(client))[1]["status"] != "ready":  # noqa: ASYNC110 - another process does it
                    await asyncio.sleep(0.05)
            await make_pool(client, 10)
            worker.process.send_signal(fault)
            status, body = await until_check(client, "settling", "no_worker")
            assert (status, body["status"], body["checks"]["selling"]["ok"]) == (200, "degraded", True)
            hold = {"owner_id": "ada", "quantity": 1, "ttl_seconds": 1}
            held = await client.post("/v1/inventory/sku/reserve", json=hold)
            assert held.status_code == 200, held.text
            health = (await client.get("/v1/ops/health")).json()
            assert not health["ok"]
            assert {one["name"] for one in health["data"] if not one["ok"]} >= {
                "settling",
                "settler",
                "expirer",
                "relay",
            }
            if fault == signal.SIGSTOP:
                worker.process.send_signal(signal.SIGCONT)
            else:
                worker.process.wait()
                await worker.start()
            await until_expired(client, held.json()["reservation_id"])
            async with asyncio.timeout(60.0):
                while (await readiness(client))[1]["status"] != "ready":  # noqa: ASYNC110 - another process does it
                    await asyncio.sleep(0.05)
        finally:
            worker.process.send_signal(signal.SIGCONT)
            worker.end()


async def test_without_postgres_redis_sells_on_and_the_server_stays_in_service(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with redis_site(tmp_path, postgres.url) as site:
            await make_pool(site.client, 100)
            assert (await ask(site.client, "before")).status_code == 200
            postgres.signal_all(signal.SIGSTOP)
            try:
                _, body = await until_check(site.client, "settling", "no_answer")
                for n in range(20):
                    status, body = await readiness(site.client)
                    assert (status, body["status"], body["checks"]["selling"]["ok"]) == (200, "degraded", True)
                    assert (await ask(site.client, f"k{n}")).status_code == 200
                    await asyncio.sleep(0.1)
            finally:
                postgres.signal_all(signal.SIGCONT)
            await until_check(site.client, "settling", None)
            await site.snapshot("sku")


async def test_a_redis_that_takes_no_writes_is_named(tmp_path: Path, postgres_database_url: str) -> None:
    async with redis_site(tmp_path, postgres_database_url) as site:
        await make_pool(site.client, 10)
        site.valkey.command("CONFIG", "SET", "min-replicas-to-write", "1")
        assert (await until_check(site.client, "selling", "replicas_missing"))[0] == 503
        site.valkey.command("CONFIG", "SET", "min-replicas-to-write", "0")
        assert (await until_check(site.client, "selling", None))[0] == 200
