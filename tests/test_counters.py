"""What is counted in memory reaches the ledger once, however many processes count."""

from collections.abc import Iterator

import pytest

from holdfast.domain.stock.state import Event
from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.counter_flusher import CounterFlusher
from holdfast.ledger.stock.pool_counts import count_returns, counts_of
from holdfast.runtime import counters


@pytest.fixture(autouse=True)
def _nothing_counted() -> Iterator[None]:
    counters.take()
    yield
    counters.take()


async def test_counts_add_up_over_batches_and_processes(database: Database) -> None:
    one, other = CounterFlusher(database), CounterFlusher(database)
    counters.count_outcomes("sku", [("reserved", 2), ("sold_out", 5)])
    await one.note()
    counters.count_outcomes("sku", [("sold_out", 1)])
    await other.note()
    await one.note()
    assert await database.read(lambda c: counts_of(c, "sku")) == {"told.reserved": 2, "told.sold_out": 6}


async def test_counts_wait_for_a_ledger_that_is_away(database: Database) -> None:
    class Away:
        async def write(self, *_work: object) -> None:
            raise Unavailable("gone")

    counters.count("sku", "told.reserved", 3)
    with pytest.raises(Unavailable):
        await CounterFlusher(Away()).note()  # type: ignore[arg-type]
    counters.count("sku", "told.reserved")
    await CounterFlusher(database).note()
    assert await database.read(lambda c: counts_of(c, "sku")) == {"told.reserved": 4}


def test_waits_are_sampled_and_weighed() -> None:
    counters.count_waits("sku", [0.0] * 160, now=0.004)
    assert counters.take() == {("sku", f"took.{counters.BOUNDS_MS.index(5)}"): 160}


def test_units_that_return_are_counted_for_the_whole_pool() -> None:
    expired, created = Event("reservation.expired", 1, "r", 2), Event("reservation.created", 1, "s", 9)
    events = [expired, created, Event("pool.returned", 1)]
    count_returns("sku", events)
    assert counters.take() == {("sku", "returned.expired"): 2}
