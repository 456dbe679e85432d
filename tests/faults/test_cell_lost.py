"""A whole cell is lost while it sells: the others go on untouched, its buyers are told, and it comes back by itself."""

import asyncio
from pathlib import Path

import httpx
from postgres_process import own_postgres
from processes import ask, serving

TERMS = {
    "name": "Drop",
    "total_units": 60,
    "price": {"amount": 100, "currency": "EUR"},
    "starts_at": "2020-01-01T00:00:00Z",
    "payment": "external",
    "per_buyer_limit": None,
}

PATIENCE_S = 60.0


async def _sell_in(client: httpx.AsyncClient, cell: str) -> None:
    """The sale, its SKU and its cell have the same name."""
    answer = await client.post("/v1/sales", json=TERMS | {"sale_id": cell, "sku_id": cell, "cell": cell})
    assert (answer.status_code, answer.json()["cell"]) == (201, cell)


async def _wait_for_cells(client: httpx.AsyncClient) -> None:
    """A server is ready without the cells that took longer than three seconds to open."""
    for _ in range(600):
        if (await client.get("/healthz/ready")).json()["status"] == "ready":
            return
        await asyncio.sleep(0.1)
    raise TimeoutError


async def _available(client: httpx.AsyncClient, sku_id: str) -> int:
    return int((await client.get(f"/v1/inventory/{sku_id}/available")).json()["available"])


async def test_a_killed_cell_leaves_the_other_untouched_and_is_back_by_itself(tmp_path: Path) -> None:
    with own_postgres() as a, own_postgres() as b:
        cells = f"a={a.url};b={b.url}"
        async with serving(tmp_path / "data", cells=cells) as holdfast, holdfast.client() as client:
            await _wait_for_cells(client)
            for cell in "ab":
                await _sell_in(client, cell)
            before = await asyncio.gather(*[ask(client, f"before-{n}", sku) for n in range(5) for sku in "ab"])
            assert {answer.status_code for answer in before} == {200}

            b.kill()
            during = await asyncio.gather(*[ask(client, f"during-{n}", sku) for n in range(20) for sku in "ab"])
            of_a, of_b = during[::2], during[1::2]
            assert {answer.status_code for answer in of_a} == {200}
            assert {(answer.status_code, answer.json()["cell"]) for answer in of_b} == {(503, "b")}
            assert all("retry-after" in answer.headers for answer in of_b)
            async with asyncio.timeout(PATIENCE_S):
                while (await ask(client, "during-0", "b")).json()["reason"] != "cell_unavailable":  # noqa: ASYNC110 - it raises no event here
                    await asyncio.sleep(0.1)
            ready = (await client.get("/healthz/ready")).json()
            assert (ready["status"], ready["checks"]["cell a"]["ok"]) == ("degraded", True)
            orders = (await client.get("/v1/orders")).json()
            assert orders["unavailable_cells"] == ["b"]
            new = TERMS | {"sale_id": "new", "sku_id": "new"}
            assert (await client.post("/v1/sales", json=new)).json()["cell"] == "a"

            b.start()
            for n in range(20):
                async with asyncio.timeout(PATIENCE_S):
                    while (answer := await ask(client, f"during-{n}", "b")).status_code == 503:  # noqa: ASYNC110 - see above
                        await asyncio.sleep(0.1)
                assert answer.status_code == 200
            # Repeated under the same keys, each attempt has one effect: 5 before and 20 during, in both cells.
            assert [await _available(client, sku) for sku in "ab"] == [35, 35]
