"""What a pool shows while more is due than a batch returns: what the next batch could have, on every engine."""

from gate_harness import redis_harness, sql_harness

from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.shared_reads import LookAt, look_into
from holdfast.testing.harness import GateHarness
from holdfast.testing.states import SKU, hold, reserve, state_of
from redis_setup import RedisSetup
from set_clock import SetClock

HOLDS = DUE_RETURNED_MAX + 9


async def check_view(harness: GateHarness, look_at: LookAt) -> None:
    await harness.put_state(state_of(2 * HOLDS, *[hold(f"h{n:05}", quantity=2, due_in=-1) for n in range(HOLDS)]))
    [view] = (await look_at([SKU])).values()
    assert not isinstance(view, Exception)
    assert (view.pool.available, view.pool.held, view.pool.active_reservations) == (2 * DUE_RETURNED_MAX, 18, 9)
    [verdict] = await harness.gate.apply(SKU, [reserve(quantity=view.pool.available)])
    assert verdict.outcome.is_success


async def test_the_view_counts_no_more_due_units_than_a_batch_returns(database: Database) -> None:
    await check_view(sql_harness(database), look_into(SetClock(database)))


async def test_the_view_from_redis_does_so_too(redis_setup: RedisSetup) -> None:
    await check_view(redis_harness(redis_setup), redis_setup.views.look_at)
