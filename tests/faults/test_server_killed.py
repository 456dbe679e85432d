"""The server dies in the middle of a burst: what was acknowledged is still there, and each key did one thing."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
from processes import HoldfastProcess, ask, make_pool, serving, stock

from holdfast.ledger.engine.opening import open_database
from ledger_snapshot import read_ledger_snapshot

CALLERS = 32
DEATHS = 3
UNITS = 100_000


class Burst:
    """Callers who reserve one unit after another, each under a key of its own, until the server is gone."""

    def __init__(self, name: str, holdfast: HoldfastProcess, kill_after: int) -> None:
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.tried: list[str] = []
        self._name, self._holdfast, self._kill_after = name, holdfast, kill_after

    async def run(self) -> None:
        async with self._holdfast.client() as client:
            await asyncio.gather(*[self._caller(client, n) for n in range(CALLERS)])

    async def _caller(self, client: httpx.AsyncClient, number: int) -> None:
        for turn in range(10_000):
            key = f"{self._name}-{number}-{turn}"
            self.tried.append(key)
            try:
                answer = await ask(client, key)
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            self.acknowledged[key] = answer.json()
            if len(self.acknowledged) == self._kill_after:
                self._holdfast.kill()


async def ask_again(holdfast: HoldfastProcess, burst: Burst) -> None:
    """Every key gets its first answer if it was given one, and exactly one reservation if it was not."""
    turns = asyncio.Semaphore(CALLERS)

    async def in_turn(client: httpx.AsyncClient, key: str) -> httpx.Response:
        # A client with hundreds of calls waiting spends longer on looking through them than on making them.
        async with turns:
            return await ask(client, key)

    async with holdfast.client() as client:
        answers = await asyncio.gather(*[in_turn(client, key) for key in burst.tried])
    for key, answer in zip(burst.tried, answers, strict=True):
        assert answer.status_code == 200, answer.text
        if key in burst.acknowledged:
            assert answer.json() == burst.acknowledged[key]
            assert answer.headers["idempotency-replayed"] == "true"


async def test_kill_9_in_a_burst_loses_nothing_acknowledged(database_url: str, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    tried: list[str] = []
    async with serving(tmp_path / "data", database_url=database_url) as holdfast:
        async with holdfast.client() as client:
            await make_pool(client, UNITS)
        for death in range(DEATHS):
            burst = Burst(f"burst{death}", holdfast, chance.randint(1, 300))
            await burst.run()
            await holdfast.start()
            await ask_again(holdfast, burst)
            tried += burst.tried
        async with holdfast.client() as client:
            assert (await stock(client))["held"] == len(tried)
        assert await holdfast.stop() == 0
    await check_books(database_url, tried)


async def check_books(database_url: str, tried: list[str]) -> None:
    database = open_database(database_url)
    try:
        books = await read_ledger_snapshot(database, "sku")
        books.check()
        assert {key for _, key in books.remembered} == set(tried)
        assert len(books.reservations) == len(tried)
    finally:
        await database.close()
