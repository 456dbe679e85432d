"""The gate on both engines, side by side with the model that keeps everything: the same verdicts, the same rows."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from books import read_books
from conftest import new_postgres_database
from holdfast.domain.command import Command, Expire
from holdfast.domain.pool import Rules
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import open_database
from holdfast.ledger.migrate import migrate
from model import Model
from set_clock import SetClock
from strategies import STEPS_MS, Namer, batches, gentle_rules, opening, reserves
from worlds import NOW

# The same examples in every run, so that a failure is found again by running the test again.
steadily = settings(
    derandomize=True,
    deadline=None,
    print_blob=True,
    max_examples=90,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)


class Bench:
    """Both engines with two gates each, open for the whole test; each example has a pool of its own on them."""

    def __init__(self, urls: list[str]) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.run = self._runner.run
        self.databases = [SetClock(open_database(url)) for url in urls]
        self.numbers = count()
        for database in self.databases:
            self.run(migrate(database))
        self.gates = [[SqlGate(database) for database in self.databases] for _ in range(2)]

    def close(self) -> None:
        for database in self.databases:
            self.run(database.close())
        self._runner.close()


class GateBesideModel(RuleBasedStateMachine):
    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.sku_id = f"sku-{next(self.bench.numbers)}"
        self.model, self.namer, self.now = Model(self.sku_id), Namer(self.sku_id), NOW
        self.gates, self.other_gates = self.bench.gates

    @rule()
    def go_through_other_gates(self) -> None:
        self.gates, self.other_gates = self.other_gates, self.gates

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

    @rule()
    def the_expirer_comes_by(self) -> None:
        self.decide([Expire(500)])

    def decide(self, batch: list[Command]) -> None:
        expected = self.model.apply(batch, self.now)
        self.namer.learn(batch, expected)
        for database, gate in zip(self.bench.databases, self.gates, strict=True):
            database.now = self.now
            assert self.bench.run(gate.apply(self.sku_id, batch)) == expected, database.dialect_name

    def teardown(self) -> None:
        model = self.model.books
        model.check()
        for database in self.bench.databases:
            books = self.bench.run(read_books(database, self.sku_id))
            assert books.sorted_events() == model.sorted_events()
            books.events = model.events
            assert books == model


@pytest.fixture
def bench(postgres_url: str, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench([f"sqlite:///{tmp_path / 'model.db'}", new_postgres_database(postgres_url)])
    yield bench
    bench.close()


def test_both_engines_decide_and_keep_what_the_model_does(bench: Bench) -> None:
    GateBesideModel.bench = bench
    run_state_machine_as_test(GateBesideModel, settings=steadily)
