"""What is counted in memory reaches the ledger once, however many processes count."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.domain.stock.state import Event
from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.counter_flusher import CounterFlusher
from holdfast.ledger.stock.history import Span, add_levels, add_to_history, coarsen, history_of, take_turn
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


HOUR_MS, SECOND_MS = 3_600_000, 1_000
BEGIN = 1_700_000_400_000 // HOUR_MS * HOUR_MS


async def _history(database: Database, since: int, until: int, seconds: int = 1) -> list[Span]:
    return await database.read(lambda c: history_of(c, "sku", since, until, seconds))


async def test_what_processes_count_in_a_second_is_one_row_of_the_history(database: Database) -> None:
    def add(connection: Any) -> None:
        add_to_history(
            connection, {("sku", "told.reserved"): 2, ("", "shed.room"): 7, ("other", "told.reserved"): 9}, at
        )
        add_to_history(connection, {("sku", "told.reserved"): 3}, at + 999)
        add_levels(connection, {("sku", "level.joined"): 40}, at + 500)
        add_to_history(connection, {("sku", "told.reserved"): 1}, at + 1_000)

    at = BEGIN
    await database.write(add)
    assert await _history(database, at, at + HOUR_MS) == [
        Span(at, 1, {"told.reserved": 5, "shed.room": 7, "level.joined": 40}),
        Span(at + 1_000, 1, {"told.reserved": 1}),
    ]
    [both] = await _history(database, at, at + HOUR_MS, seconds=60)
    assert both == Span(at, 60, {"told.reserved": 6, "shed.room": 7, "level.joined": 40})


async def test_the_middle_of_a_long_sale_becomes_coarser_and_loses_no_count(database: Database) -> None:
    """Seconds of the first and the last hour stay; for 30 hours an attempt every two minutes, and a growing level."""
    step, until = 120 * SECOND_MS, BEGIN + 30 * HOUR_MS

    def fill(connection: Any) -> None:
        for number, at in enumerate(range(BEGIN, until, step)):
            add_to_history(connection, {("sku", "told.reserved"): 1}, at)
            add_levels(connection, {("sku", "level.joined"): number}, at)

    await database.write(fill, timeout_s=60)
    for _ in range(2):
        await database.write(lambda c: coarsen(c, until))
    spans = await _history(database, BEGIN, until)
    assert sum(span.counts["told.reserved"] for span in spans) == 30 * 30
    assert [span.counts["level.joined"] for span in spans] == sorted(span.counts["level.joined"] for span in spans)
    of_width = {width: [span for span in spans if span.seconds == width] for width in (1, 60, 600)}
    assert {width: len(found) for width, found in of_width.items()} == {1: 60, 60: 23 * 30, 600: 5 * 6}
    assert of_width[600][0].at == BEGIN + HOUR_MS


async def test_one_process_has_the_turn(database: Database) -> None:
    async def take(now: int) -> bool:
        return await database.write(lambda c: take_turn(c, "history.sampled_at", now, SECOND_MS))

    assert [await take(at) for at in (5_000, 5_999, 6_000)] == [True, False, True]
