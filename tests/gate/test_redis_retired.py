"""The pool of a sale that was closed hours ago leaves Redis, and comes back when somebody needs it."""

import pytest
from redis_tampering import Refusing, over

from holdfast.domain.stock.command import Command, Expire, Move, Provision, Reserve, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.gate.redis.audit import RETIRED_AFTER_MS
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.ledger.stock.queries import PoolView
from holdfast.testing.states import NOW, SKU, reserve
from redis_setup import RedisSetup

IN_SALE = Rules(per_owner_limit=2, opens_at=NOW - 1_000)


async def sell(world: RedisSetup, *more: Command) -> None:
    """One unit, in a sale that is then closed."""
    commands = [Provision(5, IN_SALE), reserve("a", key="k"), Move(Transition.CONFIRM, "a"), *more]
    await world.open_gate().apply(SKU, commands)
    await world.open_gate().apply(SKU, [Provision(None, Rules(per_owner_limit=2, ends_at=world.clock.now))])


async def reconcile(world: RedisSetup) -> None:
    await world.drain(SKU)
    reports = await world.reconciler.pass_once()
    assert reports[SKU].finding is None


async def keys_in(world: RedisSetup) -> int:
    names = Keys(SKU).all
    [found] = await world.client.call(names[0], ["EXISTS", *names])
    return int(found)


async def retired(world: RedisSetup) -> RedisSetup:
    await sell(world)
    world.clock.advance(RETIRED_AFTER_MS + 1)
    await reconcile(world)
    assert await keys_in(world) == 0
    return world


async def test_a_pool_leaves_redis_hours_after_its_sale_was_closed_and_the_ledger_has_all_of_it(
    redis_setup: RedisSetup,
) -> None:
    await sell(redis_setup)
    redis_setup.clock.advance(RETIRED_AFTER_MS - 1)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == len(Keys(SKU).all)
    redis_setup.clock.advance(1)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == 0
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == 0
    snapshot = await redis_setup.snapshot(SKU)
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.total, snapshot.pool.held, snapshot.pool.sold) == (5, 0, 1)


@pytest.mark.parametrize("end", [Move(Transition.CANCEL, "b"), None], ids=["cancelled", "expired"])
async def test_a_pool_with_holds_stays_until_they_have_ended(redis_setup: RedisSetup, end: Command | None) -> None:
    await sell(redis_setup, Reserve("b", "bob", 1, 1, RETIRED_AFTER_MS * 2))
    redis_setup.clock.advance(RETIRED_AFTER_MS + 1)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == len(Keys(SKU).all)
    redis_setup.clock.advance(RETIRED_AFTER_MS)
    await redis_setup.open_gate().apply(SKU, [end or Expire(9)])
    redis_setup.clock.advance(RETIRED_AFTER_MS + 1)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == 0


async def test_a_pool_outside_of_a_sale_stays(redis_setup: RedisSetup) -> None:
    await redis_setup.open_gate().apply(SKU, [Provision(5)])
    redis_setup.clock.advance(RETIRED_AFTER_MS * 9)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == len(Keys(SKU).all)


async def test_a_pool_that_left_is_shown_as_the_ledger_has_it(redis_setup: RedisSetup) -> None:
    world = await retired(redis_setup)
    view = (await world.views.look_at([SKU]))[SKU]
    assert isinstance(view, PoolView)
    assert (view.pool.total, view.pool.available, view.pool.sold) == (5, 4, 1)
    assert await world.views.look_at(["unknown"]) == {}


async def test_a_pool_that_left_comes_back_with_the_next_command_under_an_epoch_that_never_was(
    redis_setup: RedisSetup,
) -> None:
    gate = redis_setup.open_gate()
    await sell(redis_setup)
    # This process knows the pool in Redis.
    await gate.apply(SKU, [Expire(1)])
    before = await redis_setup.position(SKU)
    redis_setup.clock.advance(RETIRED_AFTER_MS + 1)
    await reconcile(redis_setup)
    assert await redis_setup.position(SKU) is None
    later = Rules(per_owner_limit=2, opens_at=redis_setup.clock.now)
    verdicts = await gate.apply(SKU, [reserve("b"), Provision(5, later), reserve("c"), reserve("d", key="k")])
    assert [verdict.outcome for verdict in verdicts] == [
        Outcome.ENDED,
        Outcome.MOVED,
        Outcome.RESERVED,
        Outcome.REPLAYED,
    ]
    after = await redis_setup.position(SKU)
    assert before is not None
    assert after is not None
    assert after.epoch > before.epoch
    assert await keys_in(redis_setup) == len(Keys(SKU).all)
    (await redis_setup.snapshot(SKU)).check()


async def test_a_process_that_dies_before_the_ledger_knows_leaves_a_pool_that_is_rebuilt(
    redis_setup: RedisSetup,
) -> None:
    await sell(redis_setup)
    await redis_setup.drain(SKU)
    at = await redis_setup.position(SKU)
    assert at is not None
    names = Keys(SKU).all
    await redis_setup.client.call_function("holdfast_close_v2", names[:1], [at.epoch])
    assert await redis_setup.client.call_function("holdfast_drop_v2", names, [at.epoch, at.seq]) == 1
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    assert await keys_in(redis_setup) == len(names)
    (await redis_setup.snapshot(SKU)).check()


@pytest.mark.parametrize("is_found_first", [True, False])
async def test_a_pool_that_left_and_returns_with_an_old_copy_of_redis_is_not_sold_from(
    redis_setup: RedisSetup, is_found_first: bool
) -> None:
    gate, names = redis_setup.open_gate(), Keys(SKU).all
    await sell(redis_setup)
    # This process knows the pool in Redis as it is in the copy.
    await gate.apply(SKU, [Expire(1)])
    copied = await redis_setup.client.call(names[0], *[["DUMP", name] for name in names])
    redis_setup.clock.advance(RETIRED_AFTER_MS + 1)
    await reconcile(redis_setup)
    assert await keys_in(redis_setup) == 0
    restore = [["RESTORE", name, 0, copy] for name, copy in zip(names, copied, strict=True)]
    await redis_setup.client.call(names[0], *restore)
    if is_found_first:
        report = (await redis_setup.reconciler.pass_once(thorough=True))[SKU]
        assert report.finding == "epoch"
    later = Rules(per_owner_limit=2, opens_at=redis_setup.clock.now)
    [_, reserved] = await gate.apply(SKU, [Provision(5, later), reserve("b")])
    assert reserved.outcome is Outcome.RESERVED
    await redis_setup.reconciler.pass_once(thorough=True)
    snapshot = await redis_setup.snapshot(SKU)
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.sold) == (1, 1)


async def test_a_part_of_an_old_copy_of_a_retired_pool_says_nothing_about_the_ledger(redis_setup: RedisSetup) -> None:
    world, pool = await retired(redis_setup), Keys(SKU).pool
    await world.client.call(pool, ["HSET", pool, "trimmed", 3])
    [_, granted] = await world.open_gate().apply(SKU, [Provision(5, Rules()), reserve("b", "bob")])
    assert granted.outcome is Outcome.RESERVED


async def test_a_pool_that_is_not_in_redis_is_decided_while_redis_is_away(redis_setup: RedisSetup) -> None:
    world = await retired(redis_setup)
    away = over(Refusing(world.link, lambda _key, _command: True))
    gate = RedisGate(away, world.clock, Rebuilder(world.clock, away, world.drainer), world._report_inconsistency)
    [_, granted] = await gate.apply(SKU, [Provision(5, Rules()), reserve("b", "bob")])
    assert granted.outcome is Outcome.RESERVED
