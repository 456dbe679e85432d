"""PostgreSQL dies around COMMIT: nobody is told yes without a row, and the same key finds the truth."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from postgres_process import PostgresProcess, own_postgres
from sqlalchemy import Connection, func, select
from wire import Cut, wired

from databases import sweep, unprotect
from holdfast.domain.stock.command import Move, Provision, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.batcher import Batcher
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot

pytestmark = pytest.mark.usefixtures("postgres_url")

CALLERS = 24
UNITS = 100_000
DEATHS = 3


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresProcess]:
    with own_postgres() as process:
        yield process


@pytest.fixture
async def database(postgres: PostgresProcess) -> AsyncIterator[Database]:
    """The server's database, emptied, with a pool in it."""
    database = open_database(postgres.url, connections=4)
    await migrate(database)
    await database.write(unprotect)
    await database.write(sweep)
    await SqlGate(database).apply(SKU, [Provision(UNITS)])
    yield database
    await database.close()


async def patiently(database: Database) -> LedgerSnapshot:
    """The books, as soon as the server is back."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await read_ledger_snapshot(database, SKU)
            except Unavailable:
                await asyncio.sleep(0.05)


def the_long_way(database: Database) -> SqlGate:
    """With its own COMMIT. tests/gate/test_single_statement_grant.py cuts off single-statement grants."""
    gate = SqlGate(database)
    gate.without_transaction = ()
    return gate


@pytest.mark.parametrize(
    ("cut", "happened", "told"),
    [
        (Cut.BEFORE_COMMIT_ARRIVES, False, Outcome.RESERVED),
        (Cut.BEFORE_ITS_ANSWER_ARRIVES, True, Outcome.REPLAYED),
    ],
)
async def test_a_commit_cut_off_is_unknown_and_the_same_key_finds_the_truth(
    postgres: PostgresProcess, database: Database, cut: Cut, happened: bool, told: Outcome
) -> None:
    async with wired(postgres.url) as (wire, url):
        far = open_database(url, connections=2)
        wire.cut = cut
        with pytest.raises(OutcomeUnknown):
            await the_long_way(far).apply(SKU, [reserve("a", key="k")])
        assert wire.cuts == 1
        wire.cut = Cut.NEVER
        [verdict] = await SqlGate(far).apply(SKU, [reserve("b", key="k")])
        await far.close()
    assert verdict.outcome is told
    books = await read_ledger_snapshot(database, SKU)
    books.check()
    assert list(books.reservations) == ["a" if happened else "b"]


@pytest.mark.parametrize(
    ("cut", "told"),
    [(Cut.BEFORE_COMMIT_ARRIVES, Outcome.MOVED), (Cut.BEFORE_ITS_ANSWER_ARRIVES, Outcome.ALREADY)],
)
async def test_a_guarded_move_cut_off_is_unknown_and_a_repeat_finds_the_truth(
    postgres: PostgresProcess, database: Database, cut: Cut, told: Outcome
) -> None:
    cancel = Move(Transition.CANCEL, "a")
    await SqlGate(database).apply(SKU, [reserve("a")])
    async with wired(postgres.url) as (wire, url):
        far = open_database(url, connections=2)
        # In the values of the statement, which nothing else sends.
        wire.cut, wire.commit = cut, b"reservation.cancelled"
        with pytest.raises(OutcomeUnknown):
            await SqlGate(far).apply(SKU, [cancel])
        assert wire.cuts == 1
        await far.close()
    [verdict] = await SqlGate(database).apply(SKU, [cancel])
    assert verdict.outcome is told
    books = await read_ledger_snapshot(database, SKU)
    books.check()
    assert books.reservations["a"].status is Status.CANCELLED


async def test_a_backend_killed_before_commit_changed_nothing(database: Database) -> None:
    class Killed(SqlGate):
        def decide(self, connection: Connection, *batch: object) -> list[Verdict]:
            verdicts = super().decide(connection, *batch)  # type: ignore[arg-type]
            os.kill(connection.execute(select(func.pg_backend_pid())).scalar_one(), signal.SIGKILL)
            connection.execute(select(func.now()))
            return verdicts

    gate = Killed(database)
    gate.without_transaction = ()
    with pytest.raises(Unavailable):
        await gate.apply(SKU, [reserve("a", key="k")])
    assert not (await patiently(database)).reservations


class Callers:
    """Reserve through one line, each time under a new key, until the engine gives no verdict."""

    def __init__(self, name: str, batcher: Batcher) -> None:
        self.granted: dict[str, str] = {}
        self.failed: dict[str, EngineError] = {}
        self.enough = asyncio.Event()
        self.wanted = 0
        self._name, self._batcher = name, batcher

    async def run(self, wanted: int) -> None:
        self.wanted = wanted
        await asyncio.gather(*[self._caller(n) for n in range(CALLERS)])

    async def _caller(self, number: int) -> None:
        for turn in range(100_000):
            key = f"{self._name}-{number}-{turn}"
            command = Reserve(key, "ada", 1, 1, 600_000, key)
            try:
                verdict = await self._batcher.submit(SKU, command)
            except EngineError as exc:
                self.failed[key] = exc
                return
            assert verdict.outcome is Outcome.RESERVED
            self.granted[key] = key
            if len(self.granted) >= self.wanted:
                self.enough.set()


async def test_kill_9_of_the_server_in_a_burst_loses_nothing_that_was_told(
    postgres: PostgresProcess, database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    for death in range(DEATHS):
        callers = Callers(f"burst{death}", Batcher(SqlGate(database), timeout_s=60.0))
        bursting = asyncio.create_task(callers.run(chance.randint(1, 500)))
        await asyncio.wait_for(callers.enough.wait(), 60)
        postgres.kill()
        await asyncio.wait_for(bursting, 60)
        postgres.start()
        await check_truth(await patiently(database), database, callers)


async def check_truth(books: LedgerSnapshot, database: Database, callers: Callers) -> None:
    books.check()
    assert callers.granted.keys() <= books.reservations.keys()
    assert len(callers.failed) == CALLERS
    for key, failure in callers.failed.items():
        happened = key in books.reservations
        assert not (happened and isinstance(failure, Unavailable)), "told that nothing happened, but it did"
        [verdict] = await SqlGate(database).apply(SKU, [Reserve(f"{key}-again", "ada", 1, 1, 600_000, key)])
        assert verdict.outcome is (Outcome.REPLAYED if happened else Outcome.RESERVED)
