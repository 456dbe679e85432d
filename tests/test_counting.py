"""What is counted in memory reaches the ledger, once, whoever else counts."""

from collections.abc import Iterator

import pytest

from holdfast import counting
from holdfast.domain.state import Event
from holdfast.errors import Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.pool_counts import counts_of
from holdfast.teller import Teller


@pytest.fixture(autouse=True)
def _nothing_counted() -> Iterator[None]:
    counting.take()
    yield
    counting.take()


async def test_counts_add_up_over_batches_and_processes(database: Database) -> None:
    one, other = Teller(database), Teller(database)
    counting.count_told("sku", [("reserved", 2), ("sold_out", 5)])
    await one.note()
    counting.count_told("sku", [("sold_out", 1)])
    await other.note()
    await one.note()
    assert await database.read(lambda c: counts_of(c, "sku")) == {"told.reserved": 2, "told.sold_out": 6}


async def test_counts_wait_for_a_ledger_that_is_away(database: Database) -> None:
    class Away:
        async def write(self, *_work: object) -> None:
            raise Unavailable("gone")

    counting.count("sku", "told.reserved", 3)
    with pytest.raises(Unavailable):
        await Teller(Away()).note()  # type: ignore[arg-type]
    counting.count("sku", "told.reserved")
    await Teller(database).note()
    assert await database.read(lambda c: counts_of(c, "sku")) == {"told.reserved": 4}


def test_waits_are_sampled_and_weighed() -> None:
    counting.count_waits("sku", [0.0] * 160, now=0.004)
    assert counting.take() == {("sku", f"took.{counting.BOUNDS_MS.index(5)}"): 160}


def test_units_that_return_are_counted_for_the_whole_pool() -> None:
    expired, created = Event("reservation.expired", 1, "r", 2), Event("reservation.created", 1, "s", 9)
    events = [expired, created, Event("pool.returned", 1)]
    counting.count_returns("sku", events)
    assert counting.take() == {("sku", "returned.expired"): 2}
