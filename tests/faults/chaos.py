"""Everything is killed in random order under load, and the books must be right afterwards.

    python tests/faults/chaos.py --seed 7 --seconds 120

Two servers without background work and two workers share one PostgreSQL and one Valkey that syncs every write. Buyers
reserve, confirm, cancel and let holds expire, and repeat under the same key whatever got no answer; an operator changes
a limit, so that a pool is decided in the ledger now and then. Every one to four seconds something dies (kill -9) and is
started again. Then the faults stop, and `chaos_verdict.py` looks at what is left.

With `--lossy` Valkey also forgets: it is flushed, or comes back with the files of earlier. Then a hold may be lost, but
no sale, and the books must be as right.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

# Run as a program, this file has to say where the rest of the tests is before it can import it.
sys.path.append(str(Path(__file__).parent.parent))

from chaos_load import Buyers, Operator
from chaos_verdict import examine
from postgres_process import PostgresProcess, own_postgres
from processes import HoldfastProcess, WorkerProcess

from valkeys import ValkeyProcess, running_valkey

POOLS = {"hot": 300, "capped": 300, "changing": 200}
CAP = 4
REST_S = (1.0, 4.0)
# How long something stays dead, at most: long enough for calls to fail and agents to notice.
DEAD_S = 0.8

_NOT_STARTED = re.compile(r"^holdfast: (PostgreSQL|Redis)\b.*$", re.MULTILINE)


# What it is called, how it is done to somebody, how it ends.
Fault = tuple[str, Callable[[], object], Callable[[], Awaitable[None]]]


async def _nothing() -> None:
    pass


class Site:
    """All that may be killed."""

    def __init__(self, directory: Path, postgres: PostgresProcess, valkey: ValkeyProcess, *, lossy: bool) -> None:
        # Servers that share a sale share what they sign receipts with, or the same key would get another answer.
        where = {"database_url": postgres.url, "redis_url": valkey.url, "signing_key": "chaos-" * 8}
        self.postgres, self.valkey = postgres, valkey
        self.servers = [HoldfastProcess(directory / f"server{n}", "--no-background", **where) for n in range(2)]
        self.workers = [WorkerProcess(directory / f"worker{n}", **where) for n in range(2)]
        self.kills: Counter[str] = Counter()
        self._lossy = lossy

    @property
    def processes(self) -> list[HoldfastProcess]:
        return [*self.servers, *self.workers]

    async def start(self) -> None:
        await asyncio.gather(*[holdfast.start() for holdfast in self.processes])

    def end(self) -> None:
        for holdfast in self.processes:
            holdfast.end()

    def log_of(self, holdfast: HoldfastProcess) -> str:
        return holdfast.log.read_text(errors="replace") if holdfast.log.exists() else ""

    def rebuilds(self) -> int:
        return sum(self.log_of(holdfast).count("pool_rebuilt") for holdfast in self.processes)

    async def kill_one(self, chance: random.Random) -> None:
        """Kill it, leave it dead for a moment, bring it back."""
        name, kill, start = chance.choice(self._faults())
        self.kills[name] += 1
        await asyncio.to_thread(kill)
        await asyncio.sleep(chance.uniform(0.0, DEAD_S))
        await start()

    def _faults(self) -> list[Fault]:
        faults: list[Fault] = [
            ("valkey", self.valkey.kill, lambda: asyncio.to_thread(self.valkey.start)),
            ("postgres", self.postgres.kill, lambda: asyncio.to_thread(self.postgres.start)),
            *[(holdfast.data.name, holdfast.kill, holdfast.start) for holdfast in self.processes],
        ]
        if self._lossy:
            forgets: list[Fault] = [
                ("flush", lambda: self.valkey.command("FLUSHALL"), _nothing),
                ("earlier files", self.valkey.kill, lambda: asyncio.to_thread(self._start_earlier)),
            ]
            faults += 2 * forgets
        return faults

    def _start_earlier(self) -> None:
        """With the files of the last time this happened, if it did; else they are kept for the next time."""
        now, earlier = self.valkey.directory, self.valkey.directory.with_name("earlier")
        if earlier.exists():
            shutil.rmtree(now)
            earlier.rename(now)
        else:
            shutil.copytree(now, earlier)
        self.valkey.start()

    def ended(self) -> list[HoldfastProcess]:
        return [holdfast for holdfast in self.processes if holdfast.process.poll() is not None]

    async def revive(self) -> None:
        """As a supervisor would."""
        for holdfast in self.ended():
            self.kills[f"{holdfast.data.name} could not start"] += 1
            await holdfast.start()

    def deaths_of_their_own(self) -> list[str]:
        """Those that ended though nobody killed them; one that found an engine dead at its start may do that."""
        return [
            f"{holdfast.data.name} ended by itself with {holdfast.process.returncode}:\n{self.log_of(holdfast)[-2000:]}"
            for holdfast in self.ended()
            if not _NOT_STARTED.search(self.log_of(holdfast)[-600:])
        ]


@asynccontextmanager
async def site(directory: Path, *, lossy: bool) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        valkey = stack.enter_context(running_valkey(directory / "valkey"))
        built = Site(directory, postgres, valkey, lossy=lossy)
        stack.callback(built.end)
        await built.start()
        yield built


async def trouble(built: Site, chance: random.Random, seconds: float) -> list[str]:
    until = time.monotonic() + seconds
    wrong: list[str] = []
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(*REST_S))
        wrong += built.deaths_of_their_own()
        await built.revive()
        await built.kill_one(chance)
    return wrong


async def chaos(seed: int, seconds: float, directory: Path, *, lossy: bool) -> list[str]:
    """What was found wrong; nothing, if all is well."""
    chance = random.Random(seed)
    async with site(directory, lossy=lossy) as built:
        urls = [server.url for server in built.servers]
        buyers = Buyers(urls, chance.randrange(1 << 30), list(POOLS), lossy=lossy)
        operator = Operator(buyers, "changing", POOLS["changing"])
        for sku_id, units in POOLS.items():
            await operator.put(sku_id, units, CAP if sku_id == "capped" else None)
        load = asyncio.create_task(buyers.run())
        changes = asyncio.create_task(operator.run())
        wrong = await trouble(built, chance, seconds)
        buyers.stop()
        await asyncio.gather(load, changes)
        print(f"seed {seed}: {buyers.told()}; killed {dict(built.kills)}; {built.rebuilds()} rebuilds", flush=True)
        await built.revive()
        wrong += await examine(built.servers[0], built.valkey, buyers, POOLS | {"changing": operator.total}, CAP)
        wrong += built.deaths_of_their_own()
    return wrong + buyers.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--lossy", action="store_true", help="Valkey may also forget.")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
    try:
        wrong = asyncio.run(chaos(given.seed, given.seconds, directory, lossy=given.lossy))
    except BaseException:
        print(f"FAIL seed {given.seed}: it broke off; logs in {directory}", flush=True)
        raise
    if wrong:
        print(f"FAIL seed {given.seed}, {len(wrong)} wrong, logs in {directory}:", *wrong[:5], sep="\n  ", flush=True)
        return 1
    print(f"PASS seed {given.seed} ({given.seconds:g} s{', lossy' if given.lossy else ''})", flush=True)
    with suppress(OSError):
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
