"""A rolling upgrade: two versions side by side on one ledger sell without an error, and the old one can take over."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from later_version import EARLIER_CHANNEL, LATER, LATER_CHANNEL, NEWEST, LaterProcess, make_later_version, started
from processes import HoldfastProcess, ask, make_pool, stock
from sqlalchemy import text

from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from ledger_snapshot import read_ledger_snapshot
from valkeys import running_valkey

CALLERS = 12
UNITS = 1_000_000
SALES_MIN = 20
# A machine that stands still for a moment fails a call of each; an upgrade that refuses would fail hundreds.
RETRIES_MAX = 3 * CALLERS


class Crowd:
    """Callers of whichever servers a load balancer would send them to; each reserves, and confirms or cancels some."""

    def __init__(self, seed: int) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, str] = {}
        self._chance = random.Random(seed)
        self._servers: dict[HoldfastProcess, httpx.AsyncClient] = {}
        self._calls: dict[HoldfastProcess, int] = {}
        self._sales: dict[HoldfastProcess, int] = {}
        self._changed = asyncio.Condition()
        self._stopped = False
        self._retries: list[str] = []

    async def send_to(self, *servers: HoldfastProcess) -> None:
        """From now on only to these; returns once each has sold, and no call to another is in flight."""
        for holdfast in servers:
            if holdfast not in self._servers:
                self._servers[holdfast] = holdfast.client()
        for left in [holdfast for holdfast in self._servers if holdfast not in servers]:
            client = self._servers.pop(left)
            await self._until(partial(self._is_idle, left))
            await client.aclose()
        self._sales.clear()
        await self._until(lambda: all(self._sales.get(holdfast, 0) >= SALES_MIN for holdfast in servers))

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as callers:
                for number in range(CALLERS):
                    callers.create_task(self._call(number))
                yield
                self._stopped = True
        finally:
            for client in self._servers.values():
                await client.aclose()
        assert len(self._retries) <= RETRIES_MAX, self._retries[-1]

    def _is_idle(self, holdfast: HoldfastProcess) -> bool:
        return not self._calls.get(holdfast)

    async def _until(self, is_so: Any) -> None:
        async with asyncio.timeout(90.0), self._changed:
            await self._changed.wait_for(is_so)

    async def _call(self, number: int) -> None:
        turn = 0
        while not self._stopped:
            if not self._servers:
                await asyncio.sleep(0.01)
                continue
            holdfast, client = self._chance.choice(list(self._servers.items()))
            self._calls[holdfast] = self._calls.get(holdfast, 0) + 1
            await self._sell(client, f"{number}-{turn}")
            turn += 1
            async with self._changed:
                self._calls[holdfast] -= 1
                self._sales[holdfast] = self._sales.get(holdfast, 0) + 1
                self._changed.notify_all()

    async def _sell(self, client: httpx.AsyncClient, key: str) -> None:
        answer = await self._answered(lambda: ask(client, key))
        assert answer.status_code == 200, answer.text
        self.answers[key] = answer.json()
        path = f"/v1/reservations/{self.answers[key]['reservation_id']}"
        match self._chance.randrange(4):
            case 0:
                ended = await self._answered(lambda: client.post(f"{path}/confirm"))
                self.ended[key] = "confirmed"
            case 1:
                ended = await self._answered(lambda: client.delete(path))
                self.ended[key] = "cancelled"
            case _:
                return
        assert ended.status_code in (200, 204), ended.text

    async def _answered(self, call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        """Retried where a server cannot tell, as clients are told to."""
        async with asyncio.timeout(60.0):
            while (answer := await call()).status_code == 503 and answer.json()["retryable"]:
                self._retries.append(answer.text)
                await asyncio.sleep(0.1)
        return answer


@contextmanager
def redis_of(gate: str, directory: Path) -> Iterator[dict[str, str]]:
    if gate == "postgresql":
        yield {}
        return
    with running_valkey(directory / "valkey") as valkey:
        yield {"redis_url": valkey.url}


@pytest.mark.parametrize("gate", ["postgresql", "redis"])
async def test_two_versions_sell_side_by_side_and_the_old_one_takes_over_again(
    postgres_database_url: str, tmp_path: Path, seed: int, gate: str
) -> None:
    tree = make_later_version(tmp_path / "later")
    crowd = Crowd(seed)
    with redis_of(gate, tmp_path) as redis:
        settings = {"database_url": postgres_database_url, **redis}
        old, other = (HoldfastProcess(tmp_path / name, **settings) for name in ("old", "other"))
        new = LaterProcess(tree, tmp_path / "new", **settings)
        async with started(old, other):
            async with old.client() as client:
                await make_pool(client, UNITS)
            async with crowd.calling():
                await crowd.send_to(old, other)
                async with started(new):  # It migrates while the others sell.
                    async with new.client() as client:
                        await make_pool(client, 10, "later")
                    await crowd.send_to(old, other, new)
                    await crowd.send_to(other, new)
                    await stop_well(old)
                    await old.start()
                    assert "schema_is_newer" in old.log.read_text()
                    await crowd.send_to(old, new)
                    # A key that one version has answered, the other answers too.
                    await same_answers(crowd, old, new)
                    await crowd.send_to(old)
                    await stop_well(new)
                await crowd.send_to(old, other)
            await same_answers(crowd, old, other)
            await check_counts(crowd, old, settings)


async def stop_well(holdfast: HoldfastProcess) -> None:
    assert await holdfast.stop() == 0, holdfast.log.read_text()[-4_000:]


async def same_answers(crowd: Crowd, *servers: HoldfastProcess) -> None:
    keys = random.Random(0).sample(sorted(crowd.answers), 50)
    for holdfast in servers:
        async with holdfast.client() as client:
            for key in keys:
                assert (await ask(client, key)).json() == crowd.answers[key]


async def check_counts(crowd: Crowd, holdfast: HoldfastProcess, settings: dict[str, str]) -> None:
    sold = sum(how == "confirmed" for how in crowd.ended.values())
    held = len(crowd.answers) - len(crowd.ended)
    async with holdfast.client() as client:
        shown = await stock(client)
    assert (shown["sold"], shown["held"]) == (sold, held)
    database = open_database(settings["database_url"])
    try:
        await until_drained(database, len(crowd.answers))
        snapshot = await read_ledger_snapshot(database, "sku")
        snapshot.check()
        channels = await database.read(lambda c: {*map(tuple, c.execute(text("SELECT sku_id, channel FROM pools")))})
    finally:
        await database.close()
    assert channels == {("sku", EARLIER_CHANNEL), ("later", LATER_CHANNEL)}
    verified = holdfast.run_command("verify", "--json")
    assert json.loads(verified.stdout)["ok"], verified.stdout


async def until_drained(database: Database, reservations: int) -> None:
    count = text("SELECT count(*) FROM reservations")
    async with asyncio.timeout(60.0):
        while await database.read(lambda c: c.execute(count).scalar()) != reservations:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def until_migrated(house: HoldfastProcess) -> None:
    """A process counts as running until its heartbeat is some seconds old."""
    async with asyncio.timeout(90.0):
        while (await asyncio.to_thread(house.run_command, "migrate")).returncode != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def test_a_version_that_contracts_waits_for_older_processes_and_then_keeps_them_out(
    postgres_database_url: str, tmp_path: Path
) -> None:
    tree = make_later_version(tmp_path / "later", contracts=True)
    old = HoldfastProcess(tmp_path / "old", database_url=postgres_database_url)
    new = LaterProcess(tree, tmp_path / "new", database_url=postgres_database_url)
    async with started(old):
        refused = new.run_command("migrate")
        assert refused.returncode == 2, refused.stderr
        assert f"older than {LATER}" in refused.stderr
        async with old.client() as client:
            await make_pool(client, 5)
            assert (await ask(client, "k")).status_code == 200
        await stop_well(old)
        await until_migrated(new)
        async with started(new):
            old.launch()
            assert await old.exit_status() == 2
            assert f"at revision {LATER}" in old.log.read_text()
            assert f"this is {NEWEST}" in old.log.read_text()
