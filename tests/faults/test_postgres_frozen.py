"""PostgreSQL stops answering: callers are told so in time, what needs no database goes on, and it recovers."""

import asyncio
import signal
from pathlib import Path
from time import monotonic

import pytest
from postgres_process import own_postgres
from processes import HouseProcess, ask, make_pool, serving, stock

from holdfast.ledger.database import TRANSACTION_TIMEOUT_S

pytestmark = pytest.mark.usefixtures("postgres_url")

PATIENCE_S = 1.0
# The rest is for a busy machine.
ANSWER_S = TRANSACTION_TIMEOUT_S + 2.0


async def test_a_frozen_postgres_is_a_503_in_time_and_a_thawed_one_serves_again(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        settings = {"database_url": postgres.url, "patience_ms": f"{PATIENCE_S * 1000:.0f}"}
        async with serving(tmp_path / "data", **settings) as house, house.client() as client:
            await make_pool(client, 100)
            first = await ask(client, "before")
            postgres.signal_all(signal.SIGSTOP)
            started = monotonic()
            ready = client.get("/healthz/ready")
            frozen = asyncio.gather(ready, *[ask(client, f"during-{n}") for n in range(20)])
            live = await client.get("/healthz/live")
            assert (live.status_code, monotonic() - started < 1.0) == (200, True)
            await until_received(house)
            behind = await asyncio.gather(*[ask(client, f"during-{n}") for n in range(20)])
            assert {(answer.status_code, answer.json()["reason"]) for answer in behind} == {(503, "busy")}
            assert monotonic() - started < PATIENCE_S + 2.0
            assert not frozen.done()
            assert {answer.status_code for answer in await frozen} == {503}
            assert monotonic() - started < ANSWER_S

            postgres.signal_all(signal.SIGCONT)
            await house.until_ready()
            assert (await ask(client, "before")).json() == first.json()
            again = await asyncio.gather(*[ask(client, f"during-{n}") for n in range(20)])
            assert {answer.status_code for answer in again} == {200}
            assert (await stock(client))["held"] == 21


async def until_received(house: HouseProcess) -> None:
    """Those who ask later and are answered show that those before them were heard."""
    for _ in range(20):
        async with house.client() as client:
            assert (await client.get("/healthz/live")).status_code == 200


@pytest.mark.parametrize("asked", [False, True], ids=["idle", "with requests under way"])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_frozen_postgres_cannot_keep_a_server_from_stopping(tmp_path: Path, workers: str, asked: bool) -> None:
    with own_postgres() as postgres:
        options = ("--workers", workers)
        async with serving(tmp_path / "data", *options, database_url=postgres.url) as house, house.client() as client:
            await make_pool(client, 100)
            postgres.signal_all(signal.SIGSTOP)
            waiting = [asyncio.create_task(ask(client, f"k{n}")) for n in range(3 if asked else 0)]
            await until_received(house)
            assert await house.stop() == 0
            assert {answer.status_code for answer in await asyncio.gather(*waiting)} <= {503}
            assert '"event": "stopped"' in house.log.read_text().splitlines()[-1]
            postgres.signal_all(signal.SIGCONT)
