"""A whole day of selling against a payment provider at its worst, with workers that die: every unit ends sold or free.

    python tests/faults/selling_day.py --engine sqlite --purchases 10000 --seed 7

Buyers purchase at once from one sale whose payments go through the real sandbox, which declines some, loses some of
its replies, is slow now and then and fails with 500. Workers are killed (kill -9) every few seconds. When nothing is
left to settle, the sandbox's own books, the orders and what each buyer heard are compared (`day_books.py`), and
`holdfast verify` has the last word. Finally a copy of the ledger is tampered with by hand, and `holdfast verify` must
find each wound.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

# Run as a program, this file has to say where the rest of the tests is before it can import it.
sys.path.append(str(Path(__file__).parent.parent))

import httpx
from day_books import Day, compare, wounds_found
from joserfc import jwt
from joserfc.jwk import OctKey
from postgres_process import own_postgres
from processes import SERVICE_KEY, HoldfastProcess, WorkerProcess

from forking import HOLDFAST, start
from holdfast.lab.load.engines import free_port
from valkeys import running_valkey

BUYER_SECRET = "b0ye45ec" * 4
SALE, SKU, PRICE = "day", "day-pair", 4_999
CALLERS = 16
FAULTS = {"decline": 0.05, "lost_reply": 0.05, "slow": 0.05, "error": 0.01, "slow_ms": 700}
REST_S = (2.0, 4.0)
# A payment whose reply is lost is looked up within seconds; a worker that died is missed after its lease.
SETTLED_WITHIN_S = 900.0


def buyer_token(buyer_id: str) -> str:
    claims = {"sub": buyer_id, "exp": int(time.time()) + 3_600}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(BUYER_SECRET))


class SandboxProcess:
    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [*HOLDFAST, "sandbox", "--port", str(self.port)]
        self._log = (directory / "sandbox.log").open("ab")
        self.process = start([*command, "--data", str(directory / "sandbox.db")], stdout=self._log, stderr=self._log)

    async def until_ready(self) -> None:
        async with asyncio.timeout(60), httpx.AsyncClient(base_url=self.url, verify=False) as client:
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get("/faults")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


class Site:
    def __init__(self, directory: Path, sandbox: SandboxProcess, **engine: str) -> None:
        shared = {"buyer_secret": BUYER_SECRET, "signing_key": "day-" * 10, "payment_sandbox_url": sandbox.url}
        settings = shared | {"payment_timeout_ms": "500"} | engine
        # On SQLite, server and worker share the data directory and its one file; there is one worker.
        embedded = "database_url" not in engine
        self.sandbox = sandbox
        self.server = HoldfastProcess(directory / "holdfast", "--no-background", **settings)
        names = ["holdfast"] if embedded else ["worker0", "worker1"]
        self.workers = [WorkerProcess(directory / name, **settings) for name in names]
        for number, worker in enumerate(self.workers):
            worker.log = directory / f"worker{number}.log"
        self.kills = 0
        self._starts = Counter({worker.log: 1 for worker in self.workers})

    async def start(self) -> None:
        await self.server.start()
        for worker in self.workers:
            await worker.start()

    async def kill_a_worker(self, chance: random.Random) -> None:
        worker = chance.choice(self.workers)
        await self._until_it_works(worker)
        assert worker.process.poll() is None, f"a worker ended by itself:\n{worker.log.read_text()[-3000:]}"
        worker.kill()
        self.kills += 1
        self._starts[worker.log] += 1
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        await worker.start()

    async def _until_it_works(self, worker: WorkerProcess) -> None:
        """On a busy machine a worker needs longer to start than it is left alone: then none would ever do anything."""
        while worker.process.poll() is None:
            if worker.log.read_text().count("Working on") >= self._starts[worker.log]:
                return
            await asyncio.sleep(0.1)

    def end(self) -> None:
        for holdfast in [self.server, *self.workers]:
            holdfast.end()


@contextmanager
def engine_settings(engine: str, directory: Path) -> Iterator[dict[str, str]]:
    with own_postgres_if(engine != "sqlite") as settings:
        if engine != "redis":
            yield settings
            return
        with running_valkey(directory / "valkey") as valkey:
            yield settings | {"redis_url": valkey.url}


@contextmanager
def own_postgres_if(is_wanted: bool) -> Iterator[dict[str, str]]:
    if not is_wanted:
        yield {}
        return
    with own_postgres() as postgres:
        yield {"database_url": postgres.url}


@asynccontextmanager
async def site(directory: Path, engine: str) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        settings = stack.enter_context(engine_settings(engine, directory))
        sandbox = SandboxProcess(directory)
        stack.callback(sandbox.end)
        await sandbox.until_ready()
        built = Site(directory, sandbox, **settings)
        stack.callback(built.end)
        await built.start()
        yield built


def client_of(url: str, token: str = "") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=CALLERS, max_keepalive_connections=CALLERS)
    # Without `verify=False` each client reads all certificates there are.
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60.0, verify=False, trust_env=False, limits=limits)


async def open_sale(client: httpx.AsyncClient, units: int) -> None:
    sale = {
        "sale_id": SALE, "sku_id": SKU, "name": "Selling day", "total_units": units,
        "price": {"amount": PRICE, "currency": "EUR"}, "starts_at": "2020-01-01T00:00:00Z", "per_buyer_limit": 1,
        "checkout": "instant", "payment": "sandbox", "room": {"mode": "off"},
        # Nobody pays again here, and a declined reservation that may be would keep its units until its deadline.
        "payment_attempts_max": 1,
    }  # fmt: skip
    answer = await client.post("/v1/sales", json=sale)
    assert answer.status_code == 201, answer.text
    credit = {"amount": PRICE, "currency": "EUR", "idempotency_key": "first"}
    assert (await client.post("/v1/wallets/ada/credit", json=credit)).status_code == 200


async def purchase(client: httpx.AsyncClient, day: Day, number: int, chance: random.Random) -> None:
    buyer = f"buyer-{number}"
    headers = {"Authorization": f"Bearer {buyer_token(buyer)}", "Idempotency-Key": f"key-{number}"}
    # A double click now and then.
    for _ in range(1 + (chance.random() < 0.1)):
        answer = await client.post(f"/v1/sales/{SALE}/purchase", json={"quantity": 1}, headers=headers)
        day.hear(buyer, answer.status_code, answer.json())


async def sell(url: str, day: Day, purchases: int, seed: int) -> None:
    numbers = iter(range(purchases))

    async def caller(client: httpx.AsyncClient, chance: random.Random) -> None:
        for number in numbers:
            await purchase(client, day, number, chance)

    async with client_of(url) as client:
        await asyncio.gather(*[caller(client, random.Random(seed + n)) for n in range(CALLERS)])


async def until_settled(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while True:
            answer = await client.get(f"/v1/inventory/{SKU}/available")
            if answer.status_code == 503:  # A busy machine answers late, which a server takes for a store that is gone.
                await asyncio.sleep(0.2)
                continue
            pool = answer.json()
            assert pool["available"] + pool["held"] + pool["sold"] == pool["total_units"], pool
            if pool["held"] == 0:
                return
            await asyncio.sleep(0.2)


async def trouble(built: Site, chance: random.Random, deaths: int) -> None:
    for _ in range(deaths):
        await asyncio.sleep(chance.uniform(*REST_S))
        await built.kill_a_worker(chance)


async def selling_day(
    engine: str, purchases: int, seed: int, directory: Path, *, deaths: int = sys.maxsize
) -> list[str]:
    """What was found wrong; nothing, if all is well."""
    chance = random.Random(seed)
    day = Day(PRICE)
    async with site(directory, engine) as built, client_of(built.server.url, SERVICE_KEY) as operator:
        async with client_of(built.sandbox.url) as sandbox:
            assert (await sandbox.put("/faults", json=FAULTS | {"seed": seed})).status_code == 200
        await open_sale(operator, purchases)
        started = time.monotonic()
        killing = asyncio.create_task(trouble(built, chance, deaths))
        await sell(built.server.url, day, purchases, seed)
        sold_in = time.monotonic() - started
        await until_settled(operator)
        settled_in = time.monotonic() - started
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
        wrong = await compare(day, operator, built.sandbox.url, purchases)
        ran = await asyncio.to_thread(built.server.run_command, "verify", "--json")
        if ran.returncode != 0:
            wrong.append(f"verify: {ran.stdout[-1500:]} {ran.stderr[-500:]}")
        print(
            f"{engine}, seed {seed}: {purchases} purchases in {sold_in:.1f} s, settled after {settled_in:.1f} s, "
            f"{built.kills} workers killed; {day.summary()}",
            flush=True,
        )
        if engine == "sqlite":
            wrong += await asyncio.to_thread(wounds_found, built.server)
    return wrong + day.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=["sqlite", "postgres", "redis"], default="sqlite")
    parser.add_argument("--purchases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="holdfast-day-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
    try:
        wrong = asyncio.run(selling_day(given.engine, given.purchases, given.seed, directory))
    except BaseException:
        print(f"FAIL seed {given.seed}: it broke off; logs in {directory}", flush=True)
        raise
    if wrong:
        print(f"FAIL seed {given.seed}, {len(wrong)} wrong, logs in {directory}:", *wrong[:8], sep="\n  ", flush=True)
        return 1
    print(f"PASS seed {given.seed} ({given.engine})", flush=True)
    with suppress(OSError):
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
