"""A rebuild that dies half way, and two primaries that both serve: the ledger decides what is true."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from processes import HoldfastProcess, make_pool, serving
from redis_site import confirm

from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.reservation import Status
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.encoding import Keys
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import load_settings
from holdfast.testing.states import reserve
from ledger_snapshot import read_ledger_snapshot
from valkeys import ValkeyProcess, eventually, is_following, running_all, running_valkey, valkey

HOLDS = 30_000


async def test_a_rebuild_whose_process_is_killed_while_it_loads_is_finished_by_the_next(
    postgres_database_url: str, tmp_path: Path
) -> None:
    with running_valkey(tmp_path / "valkey") as server:
        where = {"database_url": postgres_database_url, "redis_url": server.url}
        async with (
            open_ledger(load_settings(**where)) as database,
            open_engine(load_settings(**where), database) as engine,
        ):
            await engine.gate.apply("big", [Provision(HOLDS + 5)])
            for first in range(0, HOLDS, 500):
                holds = [reserve(f"h{n}", f"owner-{n}", ttl_ms=1_800_000) for n in range(first, first + 500)]
                await engine.gate.apply("big", holds)
            assert isinstance(engine.drainer, Drainer)
            await engine.drainer.catch_up("big")
            while await engine.drainer.pass_once():
                pass
        holdfast = HoldfastProcess(tmp_path / "holdfast", **where)
        try:
            kill_while_it_loads(server, holdfast)
            await holdfast.start()
            eventually(lambda: state_of(server) == "open:2", "the rebuild was finished")
            async with holdfast.client() as client:
                shown = (await client.get("/v1/inventory/big/available")).json()
                assert (shown["available"], shown["held"]) == (5, HOLDS)
                assert (await client.post("/v1/ops/reconcile")).json()["ok"]
        finally:
            holdfast.end()


def kill_while_it_loads(server: ValkeyProcess, holdfast: HoldfastProcess) -> None:
    """It does not load for long: after a late look it begins again."""
    for _ in range(10):
        server.command("FLUSHALL")
        holdfast.launch()
        eventually(lambda: state_of(server) in ("loading", "open:2"), "the rebuild has begun")
        holdfast.kill()
        if state_of(server) == "loading":
            return
    raise TimeoutError("every rebuild was over before it could be interrupted")


def state_of(server: ValkeyProcess) -> Any:
    return server.command("HGET", Keys("big").pool, "state")


UNITS = 3


async def test_two_primaries_that_both_serve_sell_no_unit_twice(postgres_database_url: str, tmp_path: Path) -> None:
    old, new = valkey(tmp_path / "old"), valkey(tmp_path / "new")
    with running_all([old, new]):
        new.command("REPLICAOF", "127.0.0.1", old.port)
        eventually(lambda: is_following(new), "the replica follows")
        ways = [{"database_url": postgres_database_url, "redis_url": server.url} for server in (old, new)]
        async with serving(tmp_path / "first", "--no-background", **ways[0]) as first, first.client() as at_old:
            await make_pool(at_old, UNITS, "few")
            eventually(lambda: new.command("EXISTS", Keys("few").pool) == 1, "the replica has the pool")
            # The replica is made primary while the old one goes on, cut off from it, and so does its server.
            new.command("REPLICAOF", "NO", "ONE")
            async with serving(tmp_path / "second", **ways[1]) as second, second.client() as at_new:
                held = await hold_all(at_old, "old") + await hold_all(at_new, "new")
                assert len(held) == 2 * UNITS
                told = await asyncio.gather(*[pay(client, id_) for client, id_ in held])
                sold = {id_ for (_, id_), answer in zip(held, told, strict=True) if answer.status_code == 200}
                assert 0 < len(sold) <= UNITS
                first.kill()
                await settled(at_new)
                lost = [await confirm(at_new, id_) for _, id_ in held if id_ not in sold]
                more = [answer for answer in lost if answer.status_code == 200]
                assert {answer.status_code for answer in lost} <= {200, 404, 409, 410}
                assert len(sold) + len(more) <= UNITS
        database = open_database(postgres_database_url)
        snapshot = await read_ledger_snapshot(database, "few")
        await database.close()
        assert snapshot.pool is not None
        assert snapshot.pool.sold == len(sold) + len(more) <= UNITS
        assert {snapshot.reservations[id_].status for id_ in sold} <= {Status.CONFIRMED}


async def hold_all(client: httpx.AsyncClient, name: str) -> list[tuple[httpx.AsyncClient, str]]:
    held = []
    for number in range(UNITS):
        wanted = {"owner_id": f"{name}-{number}", "quantity": 1, "idempotency_key": name}
        answer = await client.post("/v1/inventory/few/reserve", json=wanted)
        assert answer.status_code == 200, answer.text
        held.append((client, str(answer.json()["reservation_id"])))
    return held


async def pay(client: httpx.AsyncClient, reservation_id: str) -> httpx.Response:
    answer = await confirm(client, reservation_id)
    assert answer.status_code in (200, 404, 409, 410, 503), answer.text
    return answer


async def settled(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            report = (await client.post("/v1/ops/reconcile")).json()
            if report["ok"] and not any(pool["journal_lag"] for pool in report["data"]):
                return
            await asyncio.sleep(0.1)
