"""Ten times as many callers as a server is at its best with, each of whom asks again at once (FAULTS 18)."""

import asyncio
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
from processes import SERVICE_KEY, HoldfastProcess, ask, make_pool, serving

from holdfast.lab.load.driver import drive
from holdfast.lab.load.spec import Load, LoadResult

AT_EASE, CROWD = 128, 1_280
SECONDS = 3.0
# Long enough for what is asked in the middle of it, on a machine that has other work.
STORM_S = 10.0
MEMORY_MAX = 250 * 1024 * 1024


async def hammer(
    holdfast: HoldfastProcess, connections: int, sku_id: str = "sku", keys: str = "", seconds: float = SECONDS
) -> LoadResult:
    body = f'{{"owner_id":"{connections}-{{number}}","quantity":1{keys}}}'
    path = f"/v1/inventory/{sku_id}/reserve"
    load = Load(holdfast.port, "POST", path, body, f"Bearer {SERVICE_KEY}", connections, seconds)
    return await asyncio.to_thread(drive, load)


async def confirm_all(client: httpx.AsyncClient, reservation_ids: list[str]) -> set[int]:
    return {(await client.post(f"/v1/reservations/{id_}/confirm")).status_code for id_ in reservation_ids}


async def until_busy(client: httpx.AsyncClient) -> httpx.Response:
    """What is least important is refused first."""
    async with asyncio.timeout(60.0):
        while (answer := await client.get("/v1/ops/pools")).status_code != 503:
            pass
    return answer


async def test_under_ten_times_the_load_some_are_served_and_what_was_begun_is_finished(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as holdfast, holdfast.client() as client:
        await make_pool(client, 10_000_000)
        held = [(await ask(client, f"held-{n}")).json()["reservation_id"] for n in range(10)]
        peak = await hammer(holdfast, AT_EASE)
        before = psutil.Process(holdfast.process.pid).memory_info().rss
        storm = asyncio.create_task(hammer(holdfast, CROWD, seconds=STORM_S))
        busy = await until_busy(client)
        assert (busy.json()["reason"], int(busy.headers["retry-after"]) >= 1) == ("busy", True)
        ready = (await client.get("/healthz/ready")).json()
        assert ready["degraded_features"] == ["odds", "audit_search", "event_streams"]
        assert await confirm_all(client, held) == {200}
        crowd = await storm
        print(f"peak {peak.per_second:.0f}/s, under ten times the load {crowd.good / crowd.elapsed_s:.0f}/s: {crowd}")
        assert set(peak.statuses) == {200}
        assert set(crowd.statuses) <= {200, 503}
        assert crowd.failed == 0
        # How much of the peak is left is measured by `holdfast bench room`.
        assert crowd.good > 0
        assert psutil.Process(holdfast.process.pid).memory_info().rss - before < MEMORY_MAX
        await until_relieved(client)


async def until_relieved(client: httpx.AsyncClient) -> None:
    """What was switched off comes back by itself."""
    async with asyncio.timeout(60.0):
        while (await client.get("/healthz/ready")).json()["degraded_features"]:  # noqa: ASYNC110 - it raises no event here
            await asyncio.sleep(0.1)
    assert (await client.get("/v1/ops/audit", params={"buyer_id": "ada"})).status_code == 200


@pytest.mark.parametrize("keys", ["", ',"idempotency_key":"{number}"'], ids=["without keys", "with keys"])
async def test_a_stampede_on_an_empty_pool_is_told_so_or_refused(tmp_path: Path, keys: str) -> None:
    async with serving(tmp_path / "data") as holdfast, holdfast.client() as client:
        await make_pool(client, 0)
        crowd = await hammer(holdfast, CROWD, keys=keys)
        print(f"{crowd.per_second:.0f}/s: {crowd}")
        assert set(crowd.statuses) <= {409, 503}
        assert crowd.statuses[409] > 0
        assert crowd.failed == 0
