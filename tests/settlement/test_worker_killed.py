"""Workers that die with kill -9 or sleep past their lease, at named points: one charge, one order, whoever goes on."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from settle_world import PRICE, SettleWorld
from sqlalchemy import text, update

from holdfast.domain.sale import payment_key_of
from holdfast.gate.functions import Functions
from holdfast.gate.link.redis_link import open_link
from holdfast.gate.redis import RedisGate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.sale_tables import orders, payments, settlements
from holdfast.ledger.tables import pools
from holdfast.settlement.drain import Drainer
from holdfast.settlement.rebuild import Rebuilder
from valkeys import running_valkey

pytest_plugins = ("settle_fixtures",)

WITHIN_S = 60.0


class Worker:
    """`holdfast worker`, a process of its own."""

    def __init__(self, directory: Path, **settings: str) -> None:
        directory.mkdir(exist_ok=True)
        self._log = directory / "worker.log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        own = {"DATA": str(directory / "data"), "PAYMENT_TIMEOUT_MS": "60000"} | settings
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "worker"],
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
    finally:
        worker.kill()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for what another process does, which raises no event here."""
    async with asyncio.timeout(WITHIN_S):
        while not (seen := await look()):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
    return seen


async def forget_leases(world: SettleWorld) -> None:
    """As if so much time had passed."""
    await world.database.write(lambda c: c.execute(update(settlements).values(leased_until=0, due_at=0)))


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[tuple[SettleWorld, str]]:
    database = open_database(database_url)
    await migrate(database)
    yield SettleWorld("sql", database, SqlGate(database), None), database_url
    await database.close()


async def stop_between_transactions(worker: Worker, database: Database) -> None:
    """Stopped in the middle of one, it would keep its locks, and nobody else could go on."""
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


async def bought_with(world: SettleWorld, method: str) -> str:
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await note_method(world, bought, method)
    return bought


async def is_settled(world: SettleWorld) -> bool:
    return not await world.open_work()


@pytest.mark.parametrize(("method", "point"), [("pm_lost_reply", "authorised"), ("pm_lost_reply_capture", "captured")])
async def test_a_worker_killed_before_it_wrote_the_answer_down(
    place: tuple[SettleWorld, str], sandbox: Sandbox, tmp_path: Path, method: str, point: str
) -> None:
    world, url = place
    sandbox.faults(lost_reply_silent=True)
    bought = await bought_with(world, method)
    where = {"DATABASE_URL": url, "PAYMENT_SANDBOX_URL": sandbox.url}

    async def has_happened() -> bool:
        entry = sandbox.books().get(payment_key_of(bought))
        return entry is not None and entry["state"] == point

    with working(tmp_path / "first", **where):
        await until(has_happened)
    assert await world.rows(orders) == []
    await forget_leases(world)
    with working(tmp_path / "second", **where):
        await until(lambda: is_settled(world))
    assert (await world.one(orders)).reservation_id == bought
    await check_money(world, sandbox)


async def test_a_worker_that_slept_past_its_lease_is_fenced(
    postgres_database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    database = open_database(postgres_database_url)
    await migrate(database)
    world = SettleWorld("sql", database, SqlGate(database), None)
    sandbox.faults(slow_ms=1_500)
    bought = await bought_with(world, "pm_slow")
    where = {"DATABASE_URL": postgres_database_url, "PAYMENT_SANDBOX_URL": sandbox.url}

    async def is_under_way() -> bool:
        # Its transaction is over, and it waits for the provider.
        return bool((await world.one(payments)).state == "attempted")

    with working(tmp_path / "sleeper", **where) as sleeper:
        await until(is_under_way)
        await stop_between_transactions(sleeper, database)
        await forget_leases(world)
        with working(tmp_path / "other", **where):
            await until(lambda: is_settled(world))
        sleeper.process.send_signal(signal.SIGCONT)

        async def is_fenced() -> bool:
            return "settlement_fenced" in sleeper.log

        await until(is_fenced)
    assert (await world.one(orders)).reservation_id == bought
    await check_money(world, sandbox)
    await database.close()


async def test_a_worker_killed_after_the_order_and_before_redis_was_told(
    postgres_database_url: str, tmp_path: Path
) -> None:
    """Redis freezes, so the order is written and the gate cannot be told of it."""
    with running_valkey(tmp_path / "valkey") as valkey:
        database = open_database(postgres_database_url)
        await migrate(database)
        link = open_link(valkey.url)
        functions = Functions(link)
        await functions.load()
        drainer = Drainer(database, link)
        gate = RedisGate(functions, database, Rebuilder(database, functions, drainer), lambda *_: None)
        world = SettleWorld("redis", database, gate, drainer)
        await world.open_sale(3)
        await world.wallet.credit("ada", 2 * PRICE, "EUR", "k")
        where = {"DATABASE_URL": postgres_database_url, "REDIS_URL": valkey.url}
        with working(tmp_path / "first", **where) as first:
            await world.buy("ada")
            await until(lambda: is_settled(world))
            await stop_between_transactions(first, database)
            bought = await world.buy("ada")
            valkey.freeze()
            first.process.send_signal(signal.SIGCONT)

            async def is_ordered() -> bool:
                return bought in {order.reservation_id for order in await world.rows(orders)}

            await until(is_ordered)
            first.kill()
            valkey.thaw()
        assert [row.state for row in await world.open_work()] == ["telling"]
        with working(tmp_path / "second", **where):
            await until(lambda: is_settled(world))

            async def is_sold() -> bool:
                return bool((await world.one(pools)).sold == 2)

            await until(is_sold)
        assert len(await world.rows(orders)) == 2
        assert (await world.wallet.balances("ada"))[0].balance == 0
        await link.close()
        await database.close()
