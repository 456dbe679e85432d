"""A server of several processes loses one: the core, which decides, or a front, which speaks HTTP for it.

What was acknowledged is there, what is not known is said to be unknown, each key did one thing, and it goes on.
"""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
from processes import HoldfastProcess, ask, children, is_running, make_pool, serving, stock, until
from test_server_killed import UNITS, check_books

FRONTS = 2
CALLERS = 24
DEATHS = 3
# For a caller who repeats what got no answer, on a machine that does much else.
PATIENCE_S = 60.0
# More than a request takes to get through a front.
IN_FLIGHT_S = 3.0


def core_of(holdfast: HoldfastProcess) -> int:
    """The last to say that it decides."""
    whole_lines = holdfast.log.read_text().rpartition("\n")[0].splitlines()
    lines = [json.loads(line) for line in whole_lines if '"deciding"' in line]
    return int(lines[-1]["pid"])


def fronts_of(holdfast: HoldfastProcess) -> list[int]:
    return [pid for pid in children(holdfast.process.pid) if _listens(pid)]


def _listens(pid: int) -> bool:
    try:
        return any(s.status == psutil.CONN_LISTEN for s in psutil.Process(pid).net_connections("tcp"))
    except psutil.NoSuchProcess:
        return False


def next_cores_of(holdfast: HoldfastProcess) -> list[int]:
    """Loaded, and waiting for their turn. The resource tracker is a child, too."""
    serving_now = {core_of(holdfast), *fronts_of(holdfast)}
    spawned = [pid for pid in children(holdfast.process.pid) if b"spawn_main" in _command_of(pid)]
    return [pid for pid in spawned if pid not in serving_now]


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def whole(holdfast: HoldfastProcess) -> None:
    await until(lambda: len(fronts_of(holdfast)) == FRONTS)
    await until(lambda: len(next_cores_of(holdfast)) == 1)


class Crowd:
    """Callers who reserve one unit after another, each under a key of its own, which they repeat until they know."""

    def __init__(self, name: str, holdfast: HoldfastProcess, kill_after: int, kill: Callable[[], None]) -> None:
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.told: Counter[str] = Counter()
        self._name, self._holdfast, self._kill_after, self._kill = name, holdfast, kill_after, kill

    async def run(self) -> None:
        async with self._holdfast.client() as client:
            await asyncio.gather(*[self._caller(client, number) for number in range(CALLERS)])

    async def _caller(self, client: httpx.AsyncClient, number: int) -> None:
        """Until some time after the death, so that all of them have seen it."""
        for turn in range(10_000):
            key = f"{self._name}-{number}-{turn}"
            async with asyncio.timeout(PATIENCE_S):
                self.acknowledged[key] = await self._ask_until_told(client, key)
            if len(self.acknowledged) == self._kill_after:
                self._kill()
            if len(self.acknowledged) > self._kill_after + 10 * CALLERS:
                return

    async def _ask_until_told(self, client: httpx.AsyncClient, key: str) -> dict[str, Any]:
        while True:
            try:
                answer = await ask(client, key)
            except httpx.TransportError:
                self.told["nothing"] += 1
                continue
            if answer.status_code == 200:
                granted: dict[str, Any] = answer.json()
                return granted
            problem = answer.json()
            assert answer.status_code == 503, answer.text
            assert problem["retryable"], answer.text
            self.told[problem["reason"]] += 1
            await asyncio.sleep(0.02)


async def check_again(holdfast: HoldfastProcess, acknowledged: dict[str, dict[str, Any]]) -> None:
    async with holdfast.client() as client:
        for key, granted in acknowledged.items():
            again = await ask(client, key)
            assert (again.status_code, again.json()) == (200, granted)
            assert again.headers["idempotency-replayed"] == "true"
        assert (await stock(client))["held"] == len(acknowledged)


async def killed_under_load(tmp_path: Path, seed: int, victim: Callable[[HoldfastProcess], int]) -> Counter[str]:
    """What callers were told other than yes."""
    chance, acknowledged, told = random.Random(seed), dict[str, dict[str, Any]](), Counter[str]()
    async with serving(tmp_path / "data", "--workers", str(FRONTS)) as holdfast:
        async with holdfast.client() as client:
            await make_pool(client, UNITS)
        for death in range(DEATHS):
            await whole(holdfast)
            pid = victim(holdfast)
            crowd = Crowd(f"c{death}", holdfast, chance.randint(1, 200), partial(os.kill, pid, signal.SIGKILL))
            await crowd.run()
            assert not is_running(pid)
            acknowledged |= crowd.acknowledged
            told += crowd.told
        await check_again(holdfast, acknowledged)
        assert await holdfast.stop() == 0
    await check_books(f"sqlite:///{tmp_path}/data/holdfast.db", list(acknowledged))
    return told


async def test_kill_9_of_the_core_loses_nothing_acknowledged_and_no_key_is_used_twice(
    tmp_path: Path, seed: int
) -> None:
    told = await killed_under_load(tmp_path, seed, core_of)
    assert set(told) <= {"outcome_unknown", "not_ready"}
    assert told, "24 callers were waiting for an answer when it died"


async def test_kill_9_of_a_front_loses_its_connections_and_nothing_else(tmp_path: Path, seed: int) -> None:
    told = await killed_under_load(tmp_path, seed, lambda holdfast: fronts_of(holdfast)[seed % FRONTS])
    assert set(told) <= {"nothing"}


async def test_what_was_on_its_way_when_the_core_died_is_unknown_and_the_key_finds_the_truth(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--workers", str(FRONTS)) as holdfast, holdfast.client() as client:
        await make_pool(client, 100)
        await whole(holdfast)
        core = core_of(holdfast)
        [next_core] = next_cores_of(holdfast)
        decided = await asyncio.gather(*[ask(client, f"before-{n}") for n in range(10)])
        os.kill(core, signal.SIGSTOP)  # So that it answers nothing of what follows.
        asking = [asyncio.create_task(ask(client, f"key-{n}")) for n in range(20)]
        looking = asyncio.create_task(client.get("/v1/inventory/sku/available"))
        # Nothing tells from outside what has reached a process that is stopped. The fronts have nothing else to do.
        await asyncio.sleep(IN_FLIGHT_S)
        os.kill(core, signal.SIGKILL)
        problems = [answer.json() for answer in await asyncio.gather(*asking)]
        # One that came only after the death was refused, and changed nothing.
        assert {problem["reason"] for problem in problems} <= {"outcome_unknown", "not_ready"}
        unknown = [problem for problem in problems if problem["reason"] == "outcome_unknown"]
        assert unknown
        assert all("same idempotency key" in problem["detail"] for problem in unknown)
        assert (await looking).json()["reason"] == "not_ready", "a look changes nothing, so nothing is unknown"
        await holdfast.until_ready()
        assert core_of(holdfast) == next_core, "it took over at once because it was loaded before"
        for n, answer in enumerate(decided):
            assert (await ask(client, f"before-{n}")).json() == answer.json()
        repeated = [await ask(client, f"key-{n}") for n in range(20)]
        assert [answer.status_code for answer in repeated] == [200] * 20
        assert (await stock(client))["held"] == 30
        assert await holdfast.stop() == 0
