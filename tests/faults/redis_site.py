"""A server whose gate is a Valkey of its own, buyers at it, and a look at everything afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from processes import HoldfastProcess, ask, serving

from holdfast.gate.redis.encoding import Keys
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.testing.snapshot import LedgerSnapshot
from ledger_snapshot import read_ledger_snapshot
from valkeys import ValkeyProcess, running_valkey

CALLERS = 24
PATIENCE_S = 60.0
# What a caller may hear while something is broken; everything else but a yes is a defect.
NOT_NOW = {"not_ready", "outcome_unknown", "busy"}


class RedisSite:
    def __init__(
        self, valkey: ValkeyProcess, holdfast: HoldfastProcess, client: httpx.AsyncClient, database: Database
    ) -> None:
        self.valkey, self.holdfast, self.client, self.database = valkey, holdfast, client, database

    def journal_length(self, sku_id: str) -> int:
        return int(self.valkey.command("XLEN", Keys(sku_id).journal))

    async def drained(self, sku_id: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.journal_length(sku_id):  # noqa: ASYNC110 - other processes do it, and raise no event here
                await asyncio.sleep(0.02)

    async def snapshot(self, sku_id: str) -> LedgerSnapshot:
        """Of a pool that is well: by itself, beside the gate, and in every check."""
        await self.drained(sku_id)
        snapshot = await read_ledger_snapshot(self.database, sku_id)
        snapshot.check()
        assert snapshot.pool is not None
        shown = (await self.client.get(f"/v1/inventory/{sku_id}/available")).json()
        pool = snapshot.pool
        assert (shown["total_units"], shown["held"], shown["sold"]) == (pool.total, pool.held, pool.sold)
        # Other pools of this site may be on their way back from the same fault.
        checked = await self.client.post("/v1/ops/reconcile")
        assert {report["sku_id"]: report["ok"] for report in checked.json()["data"]}[sku_id], checked.text
        return snapshot


@asynccontextmanager
async def opened(valkey: ValkeyProcess, holdfast: HoldfastProcess, database_url: str) -> AsyncIterator[RedisSite]:
    database = open_database(database_url)
    try:
        async with holdfast.client() as client:
            yield RedisSite(valkey, holdfast, client, database)
    finally:
        await database.close()


@asynccontextmanager
async def redis_site(directory: Path, database_url: str, *options: str, **settings: str) -> AsyncIterator[RedisSite]:
    with running_valkey(directory / "valkey") as valkey:
        where = {"database_url": database_url, "redis_url": valkey.url, **settings}
        async with (
            serving(directory / "holdfast", *options, **where) as holdfast,
            opened(valkey, holdfast, database_url) as site,
        ):
            yield site


class Burst:
    """Callers who reserve, each time under a new key, until they are told to stop; a few of them confirm at once."""

    def __init__(self, site: RedisSite, sku_id: str, name: str = "burst", *, confirm_every: int = 0) -> None:
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.confirmed: set[str] = set()
        self.tried: list[str] = []
        self.silences: list[str] = []
        self.last_yes_at = 0.0
        self._client, self._sku_id, self._name, self._confirm_every = site.client, sku_id, name, confirm_every
        self._stopped = asyncio.Event()
        self._yes = asyncio.Condition()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        callers = [asyncio.create_task(self._caller(number)) for number in range(CALLERS)]
        try:
            yield
        finally:
            self._stopped.set()
            await asyncio.gather(*callers)

    async def until(self, count: int) -> None:
        """Wait for so many to have been told yes."""
        await self._until(lambda: len(self.acknowledged) >= count)

    async def until_the_next_yes(self) -> None:
        """Only who asks after this moment counts."""
        since = time.monotonic()
        await self._until(lambda: self.last_yes_at >= since)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._yes:
            await self._yes.wait_for(is_so)

    async def _caller(self, number: int) -> None:
        turn = 0
        while not self._stopped.is_set():
            key = f"{self._name}-{number}-{turn}"
            turn += 1
            self.tried.append(key)
            asked_at = time.monotonic()
            if await self._reserve(key):
                self.last_yes_at = max(self.last_yes_at, asked_at)
                async with self._yes:
                    self._yes.notify_all()
            else:
                # As a client would that was told to come back later.
                await asyncio.sleep(0.02)

    async def _reserve(self, key: str) -> bool:
        answer = await self._or_silence(ask(self._client, key, self._sku_id))
        if answer is None:
            return False
        self.acknowledged[key] = answer.json()
        if self._confirm_every and len(self.acknowledged) % self._confirm_every == 0:
            id_ = self.acknowledged[key]["reservation_id"]
            if await self._or_silence(self._client.post(f"/v1/reservations/{id_}/confirm")):
                self.confirmed.add(id_)
        return True

    async def _or_silence(self, call: Any) -> httpx.Response | None:
        try:
            answer: httpx.Response = await call
        except httpx.TransportError as exc:
            self.silences.append(type(exc).__name__)
            return None
        if answer.status_code == 200:
            return answer
        # A hold that was lost is denied; anything else that is no is a no for now.
        assert answer.status_code == 404 or answer.json()["reason"] in NOT_NOW, answer.text
        self.silences.append(answer.json()["reason"])
        return None

    async def ask_again(self) -> None:
        """Every key gets its first answer if it was given one, and one reservation if it was not."""
        answers = await asyncio.gather(*[answer_in_time(self._client, key, self._sku_id) for key in self.tried])
        for key, answer in zip(self.tried, answers, strict=True):
            assert self.acknowledged.get(key, answer.json()) == answer.json()


async def reserve(client: httpx.AsyncClient, key: str, sku_id: str) -> str:
    answer = await ask(client, key, sku_id)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["reservation_id"])


async def confirm(client: httpx.AsyncClient, reservation_id: str) -> httpx.Response:
    return await client.post(f"/v1/reservations/{reservation_id}/confirm")


async def answer_in_time(client: httpx.AsyncClient, key: str, sku_id: str) -> httpx.Response:
    """As a client does that is told to retry, with the same key."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await ask(client, key, sku_id)).status_code != 200:
            assert answer.json()["reason"] in NOT_NOW, answer.text
            await asyncio.sleep(0.02)
    return answer


async def seconds_until_it_sells(client: httpx.AsyncClient, key: str, sku_id: str) -> float:
    since = time.monotonic()
    await answer_in_time(client, key, sku_id)
    return time.monotonic() - since
