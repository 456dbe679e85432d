"""PostgreSQL stops answering: callers are told so in time, what needs no database goes on, and it recovers."""

import asyncio
import signal
from pathlib import Path
from time import monotonic

import pytest
from postgres_process import own_postgres
from processes import ask, make_pool, serving, stock

from holdfast.ledger.database import TRANSACTION_TIMEOUT_S

pytestmark = pytest.mark.usefixtures("postgres_url")

# Cutting off a transaction takes a moment more: the connection is asked to close before it is dropped.
ANSWER_S = TRANSACTION_TIMEOUT_S + 4.0


async def test_a_frozen_postgres_is_a_503_in_time_and_a_thawed_one_serves_again(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with serving(tmp_path / "data", database_url=postgres.url) as house, house.client() as client:
            await make_pool(client, 100)
            first = await ask(client, "before")
            postgres.signal_all(signal.SIGSTOP)
            started = monotonic()
            ready = client.get("/healthz/ready")
            frozen = asyncio.gather(ready, *[ask(client, f"during-{n}") for n in range(20)])
            live = await client.get("/healthz/live")
            assert (live.status_code, monotonic() - started < 1.0) == (200, True)
            assert {answer.status_code for answer in await frozen} == {503}
            assert monotonic() - started < ANSWER_S

            postgres.signal_all(signal.SIGCONT)
            await house.until_ready()
            assert (await ask(client, "before")).json() == first.json()
            again = await asyncio.gather(*[ask(client, f"during-{n}") for n in range(20)])
            assert {answer.status_code for answer in again} == {200}
            assert (await stock(client))["held"] == 21
