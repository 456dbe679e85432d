"""The load of `chaos.py`: buyers who never take silence for an answer, and what they were told."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx
from processes import SERVICE_KEY

BUYERS = 12
SHORT_TTL_S = 2
LONG_TTL_S = 600
# Longer than anything here stays dead or takes to come back; who hears nothing for so long reports it.
PATIENCE_S = 90.0
REST_S = 0.05
# What the owner of a hold hears that Redis forgot, or promised though it had forgotten a sale.
LOST = {"reservation_not_found", "reservation_cancelled"}


class Told:
    """One reservation as its buyer knows it."""

    def __init__(self, sku_id: str, request: dict[str, Any]) -> None:
        self.sku_id = sku_id
        self.request = request
        self.first: dict[str, Any] | None = None
        self.end: str | None = None

    @property
    def reservation_id(self) -> str:
        assert self.first is not None
        return str(self.first["reservation_id"])


class Caller:
    """Asks one server after the other until one of them gives an answer that is one."""

    def __init__(self, urls: Sequence[str], chance: random.Random) -> None:
        headers = {"Authorization": f"Bearer {SERVICE_KEY}"}
        # Without `verify=False` each client reads all certificates there are, which takes longer than a purchase.
        self._clients = [
            httpx.AsyncClient(base_url=url, headers=headers, timeout=30.0, verify=False, trust_env=False)
            for url in urls
        ]
        self._chance = chance
        self.silences: Counter[str] = Counter()

    async def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = await self._try(method, path, body)
            if answer is not None:
                return answer
            if time.monotonic() > until:
                raise TimeoutError(f"no answer within {PATIENCE_S:g} s: {method} {path} {self.silences}")
            await asyncio.sleep(REST_S)

    async def _try(self, method: str, path: str, body: object) -> httpx.Response | None:
        try:
            answer = await self._chance.choice(self._clients).request(method, path, json=body)
        except httpx.TransportError as exc:
            self.silences[type(exc).__name__] += 1
            return None
        if answer.status_code == 503:
            self.silences[answer.json()["reason"]] += 1
            return None
        return answer

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


class Buyers:
    def __init__(self, urls: Sequence[str], seed: int, sku_ids: Sequence[str], *, lossy: bool) -> None:
        """`lossy`: a hold may be denied after it was granted."""
        self.urls = urls
        self.lossy = lossy
        self.wrong: list[str] = []
        self.reservations: list[Told] = []
        self.silences: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed, self._sku_ids = seed, sku_ids
        self.stopped = asyncio.Event()

    def stop(self) -> None:
        self.stopped.set()

    def told(self) -> str:
        ends = Counter(str(told.end) for told in self.reservations)
        return (
            f"{len(self.reservations)} reserved, ended as told {dict(ends)}, refused {dict(self.refusals)}, "
            f"without answer {dict(self.silences)}"
        )

    async def run(self) -> None:
        await asyncio.gather(*[self._buyer(number) for number in range(BUYERS)])

    async def _buyer(self, number: int) -> None:
        chance = random.Random(self._seed + number)
        caller = Caller(self.urls, chance)
        try:
            for turn in range(1_000_000):
                if self.stopped.is_set():
                    return
                await self._buy(caller, chance, f"buyer-{number}-{turn % 40}", f"key-{number}-{turn}")
        except AssertionError as exc:
            self.wrong.append(str(exc))
        finally:
            self.silences += caller.silences
            await caller.close()

    async def _buy(self, caller: Caller, chance: random.Random, owner_id: str, key: str) -> None:
        ttl = SHORT_TTL_S if chance.random() < 0.4 else LONG_TTL_S
        request = {"owner_id": owner_id, "quantity": chance.randint(1, 3), "ttl_seconds": ttl, "idempotency_key": key}
        told = Told(chance.choice(self._sku_ids), request)
        answer = await reserve(caller, told)
        if answer.status_code != 200:
            self._refused(answer)
            return
        told.first = answer.json()
        self.reservations.append(told)
        if chance.random() < 0.15:
            again = (await reserve(caller, told)).json()
            self._expect(again == told.first or self.lossy, f"another answer under {key}: {again}")
        # Most units have to come back, or the pools would be sold out after a few seconds.
        fate = chance.random()
        if fate < 0.03:
            await self._end(caller, told, "confirmed", "POST", "/confirm")
        elif fate < 0.75 or ttl == LONG_TTL_S:
            await self._end(caller, told, "cancelled", "DELETE", "")

    async def _end(self, caller: Caller, told: Told, end: str, method: str, path: str) -> None:
        answer = await caller.ask(method, f"/v1/reservations/{told.reservation_id}{path}")
        if answer.is_success:
            told.end = end
        elif self.lossy and answer.json().get("reason") in LOST:
            self.refusals[answer.json()["reason"]] += 1
        else:
            # What was acknowledged exists, and nobody else ends it: only its deadline may have come first.
            self._expect(answer.json().get("reason") == "reservation_expired", f"{end}: {answer.text} for {told.first}")
            told.end = "expired"

    def _refused(self, answer: httpx.Response) -> None:
        self._expect(answer.status_code == 409, f"reserve: {answer.status_code} {answer.text}")
        self.refusals[answer.json()["reason"]] += 1

    def _expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.wrong.append(what)


async def reserve(caller: Caller, told: Told) -> httpx.Response:
    return await caller.ask("POST", f"/v1/inventory/{told.sku_id}/reserve", told.request)


class Operator:
    """Adds units to a pool and changes whether it counts its owners, which only the ledger can decide."""

    def __init__(self, buyers: Buyers, sku_id: str, total: int) -> None:
        self.total = total
        self._buyers, self._sku_id = buyers, sku_id
        self._caller = Caller(buyers.urls, random.Random(total))

    async def put(self, sku_id: str, units: int, limit: int | None) -> None:
        body = {"total_units": units, "per_owner_limit": limit}
        answer = await self._caller.ask("PUT", f"/v1/inventory/{sku_id}", body)
        assert answer.status_code == 200, answer.text

    async def run(self) -> None:
        stopped = self._buyers.stopped
        limit: int | None = None
        while not stopped.is_set():
            limit = 100 if limit is None else None
            self.total += 1
            try:
                await self.put(self._sku_id, self.total, limit)
                await asyncio.wait_for(stopped.wait(), 1.5)
            except TimeoutError:
                continue
            except AssertionError as exc:
                self._buyers.wrong.append(f"operator: {exc}")
        await self._caller.close()
