"""The gate on every engine, side by side with the model that keeps everything: the same verdicts, the same rows."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec import Struct

from databases import new_postgres_database, new_sqlite_database
from holdfast.domain.stock.command import Command, Expire, Take
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.state import Counters, Transfer
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.transfers import counters_of, insert_given
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import NOW
from ledger_snapshot import read_ledger_snapshot
from model import Model
from profiles import examples
from redis_setup import RedisSetup
from set_clock import SetClock
from strategies import STEPS_MS, Namer, batches, gentle_rules, opening, reserves
from valkeys import ValkeyProcess

long_histories = settings(examples(8, all_=150), stateful_step_count=25)


class Engine(Struct, frozen=True):
    """One engine beside the model, with two gates, as two processes would have."""

    name: str
    clock: SetClock
    gates: list[Gate]
    read: Callable[[str], Coroutine[Any, Any, LedgerSnapshot]]
    counters: Callable[[str], Coroutine[Any, Any, Counters]]
    close: Callable[[], Coroutine[Any, Any, None]]


def sql_engine(url: str) -> Engine:
    database = SetClock(open_database(url))
    one, other = SqlGate(database), SqlGate(database)
    # On PostgreSQL, batches that one statement could grant fall back to a transaction through the other.
    other.without_transaction = ()
    gates: list[Gate] = [one, other]
    return Engine(
        database.dialect_name,
        database,
        gates,
        lambda sku_id: read_ledger_snapshot(database, sku_id),
        lambda sku_id: database.read(lambda c: counters_of(c, sku_id)),
        database.close,
    )


def redis_engine(url: str, ledger_url: str) -> Engine:
    world = RedisSetup(open_database(ledger_url), url)

    async def close() -> None:
        await world.close()
        await world.database.close()

    return Engine("redis", world.clock, [world.open_gate(), world.open_gate()], world.snapshot, world.counters, close)


class Bench:
    """The engines, open for the whole test; each example has a pool of its own on them."""

    def __init__(self, engines: list[Engine]) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.run = self._runner.run
        self.engines = engines
        self.numbers = count()

    def close(self) -> None:
        for engine in self.engines:
            self.run(engine.close())
        self._runner.close()


class GateBesideModel(RuleBasedStateMachine):
    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.sku_id = f"sku-{next(self.bench.numbers)}"
        self.model, self.namer, self.now = Model(self.sku_id), Namer(self.sku_id), NOW
        self.through = 0

    @rule()
    def go_through_the_other_gate(self) -> None:
        self.through = 1 - self.through

    @rule()
    def the_ledger_catches_up(self) -> None:
        """Where the ledger follows a journal, what has ended is forgotten behind it."""
        for engine in self.bench.engines:
            self.bench.run(engine.read(self.sku_id))

    @initialize(units=st.integers(1, 12), rules=st.just(Rules()) | gentle_rules)
    def open_pool(self, units: int, rules: Rules) -> None:
        self.decide(self.namer.name(opening(units, rules)))

    @rule(ms=st.sampled_from(STEPS_MS))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(batch=batches)
    def decide_a_batch(self, batch: list[Command]) -> None:
        self.decide(self.namer.name(batch))

    @rule(batch=st.lists(reserves(), min_size=4, max_size=20))
    def a_crowd_arrives(self, batch: list[Command]) -> None:
        self.decide(self.namer.name(batch))

    @rule(donor=st.sampled_from(["other", "third"]), units=st.integers(1, 9), off=st.sampled_from([0, 0, 0, -1, 1]))
    def units_arrive(self, donor: str, units: int, off: int) -> None:
        """The next ones from this donor, those before once more, or some whose turn has not come."""
        number = self.model.counters.taken.get(donor, 0) + 1
        if off == 0:
            for engine in self.bench.engines:
                arriving = Transfer(donor, self.sku_id, number, units)
                self.bench.run(engine.clock.write(lambda c, t=arriving: insert_given(c, [t], self.now)))  # type: ignore[misc]
        self.decide([Take(donor, number + off, units)])

    @rule()
    def the_expirer_comes_by(self) -> None:
        self.decide([Expire(500)])

    def decide(self, batch: list[Command]) -> None:
        expected = self.model.apply(batch, self.now)
        self.namer.learn(batch, expected)
        for engine in self.bench.engines:
            engine.clock.now = self.now
            told = self.bench.run(engine.gates[self.through].apply(self.sku_id, batch))
            assert told == expected, engine.name

    def teardown(self) -> None:
        model = self.model.snapshot
        model.check()
        for engine in self.bench.engines:
            snapshot = self.bench.run(engine.read(self.sku_id))
            assert snapshot.sorted_events() == model.sorted_events()
            snapshot.events = model.events
            assert snapshot == model
            assert self.bench.run(engine.counters(self.sku_id)) == self.model.counters


@pytest.fixture
def bench(postgres_url: str, valkey_server: ValkeyProcess, tmp_path: Path) -> Iterator[Bench]:
    sql = [sql_engine(url) for url in (new_sqlite_database(tmp_path / "model.db"), new_postgres_database(postgres_url))]
    bench = Bench([*sql, redis_engine(valkey_server.url, new_postgres_database(postgres_url))])
    yield bench
    bench.close()


@pytest.mark.hypothesis
def test_every_engine_decides_and_keeps_what_the_model_does(bench: Bench) -> None:
    GateBesideModel.bench = bench
    run_state_machine_as_test(GateBesideModel, settings=long_histories)
