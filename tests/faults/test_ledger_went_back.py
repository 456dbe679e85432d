"""The ledger went back: a backup was restored, or a replica promoted that lagged. Nobody is told that all is well."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from joining import BUYER_SECRET, buyer_token
from postgres_replica import Replicated, replicated
from processes import HoldfastProcess, ask, make_pool, serving, stock, until
from selling_day import SandboxProcess

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_url")]

HOLDS = 20
PATIENCE_S = 60.0


def backed_up(data: Path) -> Path:
    copy = data.with_name("backup.db")
    with closing(sqlite3.connect(data / "holdfast.db")) as live, closing(sqlite3.connect(copy)) as backup:
        live.backup(backup)
    return copy


def restored(data: Path, backup: Path) -> None:
    for left in ("holdfast.db-wal", "holdfast.db-shm"):
        (data / left).unlink(missing_ok=True)
    shutil.copyfile(backup, data / "holdfast.db")


async def until_marked(data: Path) -> None:
    """The mark in the file is up to a second old, on a busy machine older."""
    with closing(sqlite3.connect(data / "holdfast.db")) as live:
        [[seq]] = live.execute("SELECT max(seq) FROM events").fetchall()
    await until(lambda: json.loads((data / "ledger-mark.json").read_bytes())["mark"]["seq"] >= seq)


async def hold(client: httpx.AsyncClient, name: str, count: int = HOLDS) -> list[str]:
    answers = await asyncio.gather(*[ask(client, f"{name}-{number}") for number in range(count)])
    assert [answer.status_code for answer in answers] == [200] * count, answers[0].text
    return [answer.json()["reservation_id"] for answer in answers]


async def refused(client: httpx.AsyncClient) -> httpx.Response:
    """Says why it is not ready, as soon as it answers again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                answer = await client.get("/healthz/ready")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
                continue
            # Ready is as of the last heartbeat, a second ago at most.
            if "went back" in answer.text:
                assert answer.status_code == 503, "ready on a ledger that lost acknowledged holds"
                return answer
            await asyncio.sleep(0.05)


async def again(holdfast: HoldfastProcess) -> None:
    """Start it, whether or not it becomes ready."""
    holdfast.launch()
    async with asyncio.timeout(PATIENCE_S), holdfast.client() as client:
        while True:
            try:
                await client.get("/healthz/live")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


async def exported(holdfast: HoldfastProcess) -> Any:
    await until(lambda: any(holdfast.data.glob("ledger-went-back-*.json")))
    [export] = holdfast.data.glob("ledger-went-back-*.json")
    return json.loads(export.read_bytes())


async def recover(holdfast: HoldfastProcess, *options: str) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(holdfast.run_command, "recover", "--json", *options)


async def until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await client.get("/healthz/ready")).status_code != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_a_restored_backup_is_not_sold_from_until_a_person_has_decided(tmp_path: Path, ending: str) -> None:
    async with serving(tmp_path / "data") as holdfast, holdfast.client() as client:
        await make_pool(client, 1000)
        await hold(client, "before")
        backup = backed_up(holdfast.data)
        await hold(client, "after")
        if ending == "killed":
            await until_marked(holdfast.data)
            holdfast.kill()
        else:
            await holdfast.stop()
        restored(holdfast.data, backup)
        await again(holdfast)
        await refused(client)
        answer = await ask(client, "new")
        assert (answer.status_code, answer.json()["reason"]) == (503, "not_ready"), answer.text
        assert (await stock(client))["held"] == HOLDS
        assert (await exported(holdfast))["seen"]["seq"] > HOLDS
        assert (await recover(holdfast)).returncode == 1
        decided = json.loads((await recover(holdfast, "--accept-loss", "--by", "ada")).stdout)
        assert decided["decision"]["incarnation"]
        await until_ready(client)
        await hold(client, "new")
        assert (await recover(holdfast)).returncode == 0


async def purchase(holdfast: HoldfastProcess, buyer_id: str) -> dict[str, Any]:
    """Instantly, always under the same key."""
    headers = {"Authorization": f"Bearer {buyer_token(buyer_id)}", "Idempotency-Key": f"cart-{buyer_id}"}
    async with holdfast.client() as client:
        answer = await client.post("/v1/sales/drop/purchase", json={"quantity": 1}, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    body: dict[str, Any] = answer.json()
    return body


async def ordered(client: httpx.AsyncClient, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await client.get("/v1/sales/drop")).json()["sold"] != count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("host", ["the same", "a new one"])
async def test_nobody_is_charged_twice_after_a_backup_was_restored(tmp_path: Path, host: str) -> None:
    """A new host has no mark of the ledger; the charges at the provider carry one."""
    sandbox, buyers = SandboxProcess(tmp_path), [f"buyer-{n}" for n in range(7)]
    settings = {"buyer_secret": BUYER_SECRET, "payment_sandbox_url": sandbox.url}
    try:
        await sandbox.until_ready()
        async with serving(tmp_path / "data", **settings) as holdfast, holdfast.client() as client:
            sale = {"sale_id": "drop", "sku_id": "sku", "name": "Drop", "total_units": 100, "per_buyer_limit": 5}
            sale |= {"price": {"amount": 4_999, "currency": "EUR"}, "starts_at": "2026-01-01T00:00:00Z"}
            made = await client.post("/v1/sales", json=sale | {"checkout": "instant", "payment": "sandbox"})
            assert made.status_code == 201, made.text
            await asyncio.sleep(0.5)
            backup = backed_up(holdfast.data)
            bought = [(await purchase(holdfast, buyer))["reservation_id"] for buyer in buyers]
            await ordered(client, 7)
            await holdfast.stop()
            restored(holdfast.data, backup)
            if host == "a new one":
                (holdfast.data / "ledger-mark.json").unlink()
            await again(holdfast)
            await refused(client)
            assert (await recover(holdfast, "--accept-loss")).returncode == 0
            await until_ready(client)
            assert [(await purchase(holdfast, buyer))["reservation_id"] for buyer in buyers] == bought
            await ordered(client, 7)
        async with httpx.AsyncClient(base_url=sandbox.url, verify=False) as client:
            books = (await client.get("/books")).json()["payments"]
        assert [entry["captures"] for entry in books] == [1] * 7, "charged twice, or never"
    finally:
        sandbox.end()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    with replicated(tmp_path) as pair:
        yield pair


async def test_a_promoted_replica_that_lagged_gets_no_write_and_what_it_lacks_is_exported(
    tmp_path: Path, pair: Replicated
) -> None:
    async with serving(tmp_path / "data", database_url=pair.url) as holdfast, holdfast.client() as client:
        await make_pool(client, 1000)
        await hold(client, "before")
        await asyncio.to_thread(pair.catch_up)
        await asyncio.to_thread(pair.cut_off_replica)
        lost = await hold(client, "after")
        await asyncio.to_thread(pair.promote)
        await refused(client)
        answer = await ask(client, "new")
        assert (answer.status_code, answer.json()["reason"]) == (503, "not_ready"), answer.text
        assert pair.replica.sql("SELECT count(*) FROM reservations") == str(HOLDS)
        found = await exported(holdfast)
        assert {r["reservation"]["reservation_id"] for r in found["reservations"]} >= set(lost)
        assert found["ledger"]["timeline"] > found["seen"]["timeline"]
        shown = await recover(holdfast)
        assert (shown.returncode, json.loads(shown.stdout)["ok"]) == (1, False)
        assert (await recover(holdfast, "--import")).returncode == 0
        await until_ready(client)
        assert (await stock(client))["held"] == 2 * HOLDS
        assert await hold(client, "after") == lost, "the same key, and another reservation"
        assert (await asyncio.to_thread(holdfast.run_command, "verify")).returncode == 0


async def test_a_promoted_replica_that_has_everything_is_used_at_once(tmp_path: Path, pair: Replicated) -> None:
    async with serving(tmp_path / "data", database_url=pair.url) as holdfast, holdfast.client() as client:
        await make_pool(client, 1000)
        await hold(client, "before")
        await asyncio.to_thread(pair.catch_up)
        await asyncio.to_thread(pair.promote)
        await until_ready(client)
        await hold(client, "after")
        assert (await stock(client))["held"] == 2 * HOLDS
