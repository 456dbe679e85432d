"""A network that delays everything by 150 ms is slow and not dead."""

import asyncio
import time
from pathlib import Path

import pytest
from postgres_process import own_postgres
from processes import ask, make_pool, serving
from wire import wired

pytestmark = pytest.mark.usefixtures("postgres_url")


async def test_sales_go_on_over_a_network_with_150_ms_of_delay(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with (
            wired(postgres.url) as (wire, url),
            serving(tmp_path / "data", database_url=url) as holdfast,
            holdfast.client() as client,
        ):
            await make_pool(client, 10_000)
            # Until the connection for probes is open, which takes longer than a probe may.
            await asyncio.sleep(1.5)
            wire.delay_s = 0.15
            until, count = time.monotonic() + 8.0, 0
            while time.monotonic() < until:
                answers = await asyncio.gather(*[ask(client, f"k{count}-{n}") for n in range(20)])
                assert {answer.status_code for answer in answers} == {200}, answers[0].text
                count += 1
            assert "dependency_lost" not in holdfast.log.read_text()
            assert (await client.get("/healthz/ready")).json()["checks"]["selling"]["ok"]


async def test_a_server_that_was_cut_off_is_found_again_over_a_slow_network(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        async with (
            wired(postgres.url) as (wire, url),
            serving(tmp_path / "data", database_url=url) as holdfast,
            holdfast.client() as client,
        ):
            await make_pool(client, 100)
            wire.delay_s = 0.15
            wire.flows.clear()
            refused = await ask(client, "meanwhile")
            assert refused.status_code == 503
            wire.flows.set()
            async with asyncio.timeout(60.0):
                while (await ask(client, "after")).status_code != 200:  # noqa: ASYNC110 - it raises no event here
                    await asyncio.sleep(0.1)
