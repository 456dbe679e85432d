"""Workers that are killed or sleep past their lease, at named points: one charge, one order, whichever continues."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from settle_harness import PRICE, SettleHarness
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from sqlalchemy import text, update

from forking import HOLDFAST, start
from holdfast.domain.sale.sale import payment_key_of
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables.money import payments, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools
from valkeys import running_valkey

pytest_plugins = ("settle_fixtures",)

# Longer than a worker waits for a provider that does not answer.
WITHIN_S = 180.0


class Worker:
    """`holdfast worker` as a process."""

    def __init__(self, directory: Path, **settings: str) -> None:
        directory.mkdir(exist_ok=True)
        self._log = directory / "worker.log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        own = {"DATA": str(directory / "data"), "PAYMENT_TIMEOUT_MS": "60000"} | settings
        with self._log.open("ab") as log:
            self.process = start(
                [*HOLDFAST, "worker"],
                env=inherited | {f"HOLDFAST_{name}": value for name, value in own.items()},
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        assert self.process.poll() in (None, -9), self._log.read_text()
        return self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def working(directory: Path, **settings: str) -> Iterator[Worker]:
    worker = Worker(directory, **settings)
    try:
        yield worker
    except BaseException:
        print(worker.process.poll(), worker.log)
        raise
    finally:
        worker.kill()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for what another process does, which sends no event."""
    async with asyncio.timeout(WITHIN_S):
        while not (seen := await look()):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
    return seen


async def forget_leases(harness: SettleHarness) -> None:
    """As if the leases had expired."""
    await harness.database.write(lambda c: c.execute(update(settlements).values(leased_until=0, due_at=0)))


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[tuple[SettleHarness, str]]:
    database = open_database(database_url)
    await migrate(database)
    yield SettleHarness("sql", database, SqlGate(database), None), database_url
    await database.close()


async def stop_between_transactions(worker: Worker, database: Database) -> None:
    """Stopped within a transaction, it would keep its locks and block everyone else."""
    open_elsewhere = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    )

    async def is_between() -> bool:
        worker.process.send_signal(signal.SIGSTOP)
        if await database.read(lambda c: c.execute(open_elsewhere).scalar_one()) == 0:
            return True
        worker.process.send_signal(signal.SIGCONT)
        return False

    await until(is_between)


async def bought_with(harness: SettleHarness, method: str) -> str:
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, method)
    return bought


async def is_settled(harness: SettleHarness) -> bool:
    return not await harness.open_work()


@pytest.mark.daily
@pytest.mark.parametrize(("method", "point"), [("pm_lost_reply", "authorised"), ("pm_lost_reply_capture", "captured")])
async def test_a_worker_killed_before_it_stored_the_reply(
    place: tuple[SettleHarness, str], sandbox: Sandbox, tmp_path: Path, method: str, point: str
) -> None:
    harness, url = place
    sandbox.faults(lost_reply_silent=True)
    bought = await bought_with(harness, method)
    where = {"DATABASE_URL": url, "PAYMENT_SANDBOX_URL": sandbox.url}

    async def has_happened() -> bool:
        entry = sandbox.books().get(payment_key_of(bought))
        return entry is not None and entry["state"] == point

    with working(tmp_path / "first", **where):
        await until(has_happened)
    assert await harness.rows(orders) == []
    await forget_leases(harness)
    with working(tmp_path / "second", **where):
        await until(lambda: is_settled(harness))
    assert (await harness.one(orders)).reservation_id == bought
    await check_money(harness, sandbox)


@pytest.mark.slow
async def test_a_worker_that_slept_past_its_lease_is_fenced(
    postgres_database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    database = open_database(postgres_database_url)
    await migrate(database)
    harness = SettleHarness("sql", database, SqlGate(database), None)
    # Longer than it takes to stop the worker meanwhile, on a busy machine.
    sandbox.faults(slow_ms=5_000)
    bought = await bought_with(harness, "pm_slow")
    where = {"DATABASE_URL": postgres_database_url, "PAYMENT_SANDBOX_URL": sandbox.url}

    async def is_under_way() -> bool:
        # Its transaction is over, and it waits for the provider.
        return bool((await harness.one(payments)).state == "attempted")

    with working(tmp_path / "sleeper", **where) as sleeper:
        await until(is_under_way)
        await stop_between_transactions(sleeper, database)
        await forget_leases(harness)
        with working(tmp_path / "other", **where):
            await until(lambda: is_settled(harness))
        sleeper.process.send_signal(signal.SIGCONT)

        async def is_fenced() -> bool:
            return "settlement_fenced" in sleeper.log

        await until(is_fenced)
    assert (await harness.one(orders)).reservation_id == bought
    await check_money(harness, sandbox)
    await database.close()


@pytest.mark.slow
async def test_a_worker_killed_after_the_order_and_before_redis_was_notified(
    postgres_database_url: str, tmp_path: Path
) -> None:
    """Redis freezes, so the order is written and the gate cannot be notified."""
    with running_valkey(tmp_path / "valkey") as valkey:
        database = open_database(postgres_database_url)
        await migrate(database)
        link = open_link(valkey.url)
        client = RedisClient(link)
        await client.load_library()
        drainer = Drainer(database, client)
        gate = RedisGate(client, database, Rebuilder(database, client, drainer), lambda *_: None)
        harness = SettleHarness("redis", database, gate, drainer)
        await harness.open_sale(3)
        await harness.wallet.credit("ada", 2 * PRICE, "EUR", "k")
        where = {"DATABASE_URL": postgres_database_url, "REDIS_URL": valkey.url}
        with working(tmp_path / "first", **where) as first:
            await harness.buy("ada")
            await until(lambda: is_settled(harness))
            await stop_between_transactions(first, database)
            bought = await harness.buy("ada")
            valkey.freeze()
            first.process.send_signal(signal.SIGCONT)

            async def is_ordered() -> bool:
                return bought in {order.reservation_id for order in await harness.rows(orders)}

            await until(is_ordered)
            first.kill()
            valkey.thaw()
        assert [row.state for row in await harness.open_work()] == ["notifying"]
        with working(tmp_path / "second", **where):
            await until(lambda: is_settled(harness))

            async def is_sold() -> bool:
                return bool((await harness.one(pools)).sold == 2)

            await until(is_sold)
        assert len(await harness.rows(orders)) == 2
        assert (await harness.wallet.balances("ada"))[0].balance == 0
        await link.close()
        await database.close()
