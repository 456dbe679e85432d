"""A pool that is split over shards: what its buyers are told, and that no unit is lost, doubled or left behind."""

import asyncio
import random
from collections import Counter

import pytest
from redis.crc import key_slot
from shard_world import NAMES, SHARDS, ShardWorld

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Expire, Extend, Move, Provision, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool, RuleChanges, Rules
from holdfast.domain.stock.reservation import Status, new_reservation_id
from holdfast.domain.stock.shards import shard_names, shard_of, shard_of_owner, spread, whole_pool
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.shards.stock import ShardStock
from holdfast.gate.redis.views import RedisViews, WholePool
from holdfast.ledger.engine import postgres
from holdfast.ledger.sales.sales import insert_sale
from holdfast.runtime import store_health
from holdfast.testing.states import MINUTE, SKU
from redis_setup import RedisSetup

SALE = Sale(
    sale_id="drop", sku_id=SKU, name="Drop", price_amount=1, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.EXTERNAL,
)  # fmt: skip


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd may make a busy machine's database late, which is no reason here to refuse somebody."""
    monkeypatch.setattr(store_health, "PROBE_S", 30.0)
    monkeypatch.setattr(postgres, "POOL_TIMEOUT_S", 60.0)


@pytest.fixture
async def shop(_patient: None, redis_setup: RedisSetup) -> ShardWorld:
    return ShardWorld(redis_setup)


# --- where things go


def test_an_owner_and_his_reservations_are_in_one_shard_and_owners_are_spread() -> None:
    owners = [f"owner-{n}" for n in range(4_000)]
    for shards in (2, 3, 7, 64):
        at = [shard_of_owner(owner, shards) for owner in owners]
        assert at == [shard_of(new_reservation_id(SKU, owner), shards) for owner in owners]
        assert set(at) == set(range(shards))
        assert max(Counter(at).values()) < 1.5 * len(owners) / shards


def test_the_shards_of_every_sku_are_spread_over_the_slots_of_a_cluster() -> None:
    for sku_id in (f"sku-{n}" for n in range(50)):
        for shards in (2, 3, 6, 64):
            slots = [key_slot(Keys(name).pool.encode()) for name in shard_names(sku_id, shards)]
            assert [slot * shards // 16384 for slot in slots] == list(range(shards))


def test_units_are_spread_evenly_and_all_of_them() -> None:
    assert [spread(units, 4) for units in (0, 3, 8, 10)] == [[0] * 4, [1, 1, 1, 0], [2] * 4, [3, 3, 2, 2]]


def test_a_whole_pool_is_sold_out_only_when_every_unit_is_sold() -> None:
    parts = [Pool("a/0", 3, sold=3), Pool("a/1", 1, sold=1)]
    assert whole_pool("a", 4, parts).availability == "sold_out"
    # One unit is in neither: it is on its way, and may come.
    assert whole_pool("a", 5, parts) == Pool("a", 5, held=1, sold=4)
    # One unit was seen twice, before it left and after it arrived.
    assert whole_pool("a", 4, [Pool("a/0", 3, sold=2), Pool("a/1", 2, sold=2)]) == Pool("a", 4, sold=4)


# --- stock


async def test_a_new_pool_is_spread_over_its_shards_and_shown_as_one(shop: ShardWorld) -> None:
    rules = Rules(per_owner_limit=2)
    verdict = await shop.apply(Provision(10, rules, shards=SHARDS))
    assert (verdict.outcome, verdict.pool) == (Outcome.MOVED, Pool(SKU, 10, rules=rules))
    assert [pool.total for pool in await shop.shards()] == [3, 3, 2, 2]
    assert {pool.rules for pool in await shop.shards()} == {rules}
    await shop.check()


async def test_the_number_of_shards_is_chosen_once(shop: ShardWorld) -> None:
    await shop.apply(Provision(10, shards=SHARDS))
    for gate in (shop.gate, shop.world.open_sharded_gate()):
        [refused, kept] = await gate.apply(SKU, [Provision(12, shards=2), Provision(12)])
        assert (refused.outcome, refused.shards, kept.outcome) == (Outcome.ILLEGAL, SHARDS, Outcome.MOVED)
    [made, refused] = await shop.gate.apply("whole", [Provision(5), Provision(5, shards=4)])
    assert (made.pool, refused.outcome, refused.shards) == (Pool("whole", 5), Outcome.ILLEGAL, 1)
    await shop.check(total=12)


async def test_of_two_who_create_it_differently_at_once_one_is_refused(shop: ShardWorld) -> None:
    gates = [shop.gate, *(shop.world.open_sharded_gate() for _ in range(3))]
    asked = [Provision(8, shards=SHARDS), Provision(8, shards=2), Provision(8), Provision(8, shards=SHARDS)]
    told = [v for [v] in await asyncio.gather(*[g.apply(SKU, [p]) for g, p in zip(gates, asked, strict=True)])]
    shards = await shop.world.splits.of(SKU)
    for gate, provision, verdict in zip(gates, asked, told, strict=True):
        # Who came while another was making it is told so, and finds it made.
        [again] = await gate.apply(SKU, [provision])
        expected = Outcome.MOVED if provision.shards in (None, shards) else Outcome.ILLEGAL
        assert again.outcome is expected
        assert verdict.outcome in (expected, Outcome.NOT_READY)
    if shards == SHARDS:
        await shop.check(total=8)


async def test_stock_is_raised_and_lowered_over_all_shards(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    for command, total in ((Provision(20), 20), (Restock(5), 25), (Restock(-13), 12), (Provision(3), 3)):
        verdict = await shop.apply(command)
        assert (verdict.outcome, verdict.pool) == (Outcome.MOVED, Pool(SKU, total))
        await shop.check(total=total)


async def test_stock_is_not_lowered_below_what_is_committed_anywhere(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    for owner in range(6):
        assert (await shop.reserve(f"owner-{owner}")).outcome is Outcome.RESERVED
    verdict = await shop.apply(Provision(5, changes=RuleChanges(paused=True)))
    assert (verdict.outcome, verdict.available) == (Outcome.INSUFFICIENT, 2)
    assert verdict.pool is not None
    assert (verdict.pool.total, verdict.pool.held) == (8, 6)
    assert not any(pool.rules.paused for pool in await shop.shards())
    assert (await shop.apply(Provision(6))).outcome is Outcome.MOVED
    await shop.check(total=6)


async def test_rules_reach_every_shard_and_a_limit_set_later_counts_what_was_before(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    await shop.reserve("ada", 2)
    await shop.apply(Provision(8, changes=RuleChanges(per_owner_limit=3)))
    assert {pool.rules for pool in await shop.shards()} == {Rules(per_owner_limit=3)}
    assert [(await shop.reserve("ada", n)).outcome for n in (2, 1)] == [Outcome.BUYER_LIMIT, Outcome.RESERVED]
    await shop.check()


@pytest.mark.parametrize("total", [12, 8, 4])
async def test_a_change_that_was_underway_when_the_pool_was_put_in_a_sale_is_refused(
    shop: ShardWorld, monkeypatch: pytest.MonkeyPatch, total: int
) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    sale, other = Rules(per_owner_limit=1, opens_at=shop.world.clock.now), shop.world.open_sharded_gate()
    look = RedisViews.whole

    async def look_before_the_sale(views: RedisViews, sku_id: str) -> WholePool:
        whole = await look(views, sku_id)
        monkeypatch.setattr(RedisViews, "whole", look)
        await other.apply(SKU, [Provision(None, sale)])
        return whole

    monkeypatch.setattr(RedisViews, "whole", look_before_the_sale)
    change = Provision(total, changes=RuleChanges(per_owner_limit=9), unless_in_sale=True)
    assert (await shop.apply(change)).outcome is Outcome.ILLEGAL
    assert {pool.rules for pool in await shop.shards()} == {sale}
    await shop.check(total=8)


@pytest.mark.parametrize("total", [12, 4])
async def test_a_total_that_was_underway_when_the_pool_was_put_in_a_sale_is_refused(
    shop: ShardWorld, monkeypatch: pytest.MonkeyPatch, total: int
) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    database, other = shop.world.database, shop.world.open_sharded_gate()
    rules = Rules(per_owner_limit=1, opens_at=shop.world.clock.now)
    set_rules = ShardStock._set_rules

    async def put_in_sale_after_them(stock: ShardStock, sku_id: str, shards: int, command: Provision) -> Verdict | None:
        refused = await set_rules(stock, sku_id, shards, command)
        monkeypatch.setattr(ShardStock, "_set_rules", set_rules)
        await database.write(lambda c: insert_sale(c, SALE))
        await other.apply(SKU, [Provision(8, rules)])
        return refused

    monkeypatch.setattr(ShardStock, "_set_rules", put_in_sale_after_them)
    assert (await shop.apply(Provision(total, unless_in_sale=True))).outcome is Outcome.ILLEGAL
    assert {pool.rules for pool in await shop.shards()} == {rules}
    await shop.check(total=8)


async def test_rules_that_differ_become_those_of_the_first_shard(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    await shop.world.open_gate().apply(NAMES[0], [Provision(None, Rules(per_owner_limit=3))])
    for _ in range(2):
        await shop.world.reconciler.pass_once()
    assert {pool.rules for pool in await shop.shards()} == {Rules(per_owner_limit=3)}
    await shop.check()


async def test_a_creation_that_died_half_way_is_completed_by_its_repeat(shop: ShardWorld) -> None:
    await shop.world.splits.choose(SKU, SHARDS, 10)
    await shop.world.open_gate().apply(NAMES[0], [Provision(None)])
    told = {(await shop.reserve(f"early-{n}")).outcome for n in range(20)}
    assert told <= {Outcome.NOT_READY, Outcome.ALL_HELD, Outcome.RESERVED}
    verdict = await shop.apply(Provision(10, only_if_missing=True))
    assert verdict.outcome is Outcome.MOVED
    assert (await shop.apply(Provision(99, only_if_missing=True))).outcome is Outcome.ALREADY
    await shop.check(total=10)


# --- buyers


async def test_one_owner_buys_what_all_shards_have(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    verdict = await shop.reserve("ada", 8)
    assert verdict.reservation is not None
    assert (verdict.reservation.quantity, verdict.reservation.sku_id) == (8, SKU)
    refused = await shop.reserve("bob")
    assert (refused.outcome, refused.available) == (Outcome.ALL_HELD, 0)
    assert refused.next_return_at == verdict.reservation.expires_at
    [sold] = await shop.gate.apply(SKU, [Move(Transition.CONFIRM, verdict.reservation.reservation_id)])
    assert (sold.outcome, sold.reservation is not None and sold.reservation.sku_id) == (Outcome.MOVED, SKU)
    assert (await shop.reserve("bob")).outcome is Outcome.SOLD_OUT
    await shop.check(held=0, sold=8)


async def test_what_all_shards_together_cannot_serve_is_refused_with_what_they_have(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    before = [pool.total for pool in await shop.shards()]
    refused = await shop.reserve("ada", 9)
    assert (refused.outcome, refused.available) == (Outcome.INSUFFICIENT, 8)
    assert [pool.total for pool in await shop.shards()] == before


async def test_a_partial_fill_is_filled_from_all_shards(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    verdict = await shop.reserve("ada", 20, at_least=1)
    assert verdict.reservation is not None
    assert verdict.reservation.quantity == 8
    await shop.check()


async def test_a_unit_that_returns_in_one_shard_reaches_the_buyer_of_another(shop: ShardWorld) -> None:
    await shop.apply(Provision(4, shards=SHARDS))
    held = [await shop.reserve(f"owner-{n}", ttl_ms=MINUTE + n) for n in range(4)]
    assert all(verdict.outcome is Outcome.RESERVED for verdict in held)
    assert (await shop.reserve("late")).outcome is Outcome.ALL_HELD
    shop.world.clock.advance(MINUTE)
    assert (await shop.reserve("late")).outcome is Outcome.RESERVED
    assert (await shop.reserve("later")).outcome is Outcome.ALL_HELD
    await shop.check()


async def test_moves_find_their_shard_by_the_id_alone_in_any_process(shop: ShardWorld) -> None:
    await shop.apply(Provision(40, shards=SHARDS))
    ids = [(await shop.hold(f"owner-{n}")).reservation_id for n in range(8)]
    other = shop.world.open_sharded_gate()
    told = await other.apply(
        SKU,
        [
            Extend(ids[0], 2 * MINUTE),
            Move(Transition.SETTLE, ids[1]),
            Move(Transition.CONFIRM, ids[1]),
            Move(Transition.CANCEL, ids[2]),
            Move(Transition.CANCEL, ids[3], "nobody"),
            Move(Transition.CONFIRM, f"rsv_{'0' * 32}_{SKU}"),
            Move(Transition.CONFIRM, "nonsense"),
        ],
    )
    moved, gone = Outcome.MOVED, Outcome.NOT_FOUND
    assert [verdict.outcome for verdict in told] == [moved, moved, moved, moved, gone, gone, gone]
    assert {verdict.reservation.sku_id for verdict in told if verdict.reservation} == {SKU}
    found = [await shop.world.views.find(id_) for id_ in ids]
    assert [r and r.sku_id for r in found] == [SKU] * 8
    assert [r and r.status for r in found[1:3]] == [Status.CONFIRMED, Status.CANCELLED]
    await shop.check()


async def test_expiring_a_pool_expires_every_shard(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, shards=SHARDS))
    for owner in range(8):
        await shop.hold(f"owner-{owner}")
    shop.world.clock.advance(MINUTE)
    assert (await shop.apply(Expire(500))).units == 8
    await shop.check(held=0)


# --- many at once


async def test_a_crowd_gets_every_unit_and_nobody_hears_sold_out_before(shop: ShardWorld, seed: int) -> None:
    """Few units, many owners, two processes, holds that are let go and taken again."""
    chance = random.Random(seed)
    units = 37
    await shop.apply(Provision(units, shards=SHARDS))
    gates = [shop.gate, shop.world.open_sharded_gate()]
    sold = 0

    async def buyer(number: int) -> None:
        nonlocal sold
        gate, owner = gates[number % 2], f"owner-{number}"
        for turn in range(200):
            [verdict] = await gate.apply(SKU, [shop.command(owner, key=f"k-{turn}")])
            if verdict.outcome is Outcome.SOLD_OUT:
                assert sold == units, f"sold out was said when {sold} of {units} were sold"
                return
            if verdict.reservation is None:
                assert verdict.outcome in (Outcome.ALL_HELD, Outcome.NOT_READY)
                await asyncio.sleep(chance.random() / 50)
                continue
            move = Transition.CANCEL if chance.random() < 0.3 else Transition.CONFIRM
            if move is Transition.CONFIRM:
                sold += 1  # Before it is asked for: others may see it sold before the answer is here.
            [moved] = await gate.apply(SKU, [Move(move, verdict.reservation.reservation_id)])
            assert moved.outcome is Outcome.MOVED
            if move is Transition.CONFIRM:
                return

    await asyncio.gather(*[buyer(number) for number in range(2 * units)])
    assert sold == units
    await shop.check(held=0, sold=units)


@pytest.fixture
def waits_for_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no attempt is told to try again because its units are still in transfer."""
    monkeypatch.setattr("holdfast.gate.redis.shards.gate.TRANSFER_TIMEOUT_S", 60.0)


@pytest.mark.usefixtures("waits_for_transfers")
async def test_the_limit_of_one_owner_is_exact_under_parallel_requests(shop: ShardWorld) -> None:
    await shop.apply(Provision(8, Rules(per_owner_limit=5), shards=SHARDS))
    gates = [shop.world.open_sharded_gate() for _ in range(3)]
    asked = [gates[n % 3].apply(SKU, [shop.command("ada")]) for n in range(30)]
    outcomes = Counter(verdict.outcome for [verdict] in await asyncio.gather(*asked))
    assert outcomes == {Outcome.RESERVED: 5, Outcome.BUYER_LIMIT: 25}
    await shop.check(held=5)


@pytest.mark.usefixtures("waits_for_transfers")
async def test_one_key_gets_one_answer_however_often_and_wherever_it_is_asked(shop: ShardWorld) -> None:
    await shop.apply(Provision(3, shards=SHARDS))
    gates = [shop.world.open_sharded_gate() for _ in range(3)]
    asked = [gates[n % 3].apply(SKU, [shop.command("ada", 3, key="k")]) for n in range(12)]
    told = [verdict for [verdict] in await asyncio.gather(*asked)]
    assert Counter(verdict.outcome for verdict in told) == {Outcome.RESERVED: 1, Outcome.REPLAYED: 11}
    assert len({verdict.reservation for verdict in told}) == 1
    assert (await shop.apply(shop.command("ada", 2, key="k"))).outcome is Outcome.KEY_REUSED
    await shop.check(held=3)


async def test_a_batch_of_everything_is_answered_in_order(shop: ShardWorld) -> None:
    reserves = [shop.command(f"owner-{n}") for n in range(6)]
    others = [shop.command(f"other-{n}") for n in range(2)]
    cancels = [Move(Transition.CANCEL, r.reservation_id) for r in reserves]
    told = await shop.gate.apply(SKU, [Provision(4, shards=SHARDS), *reserves, Restock(2), *others, *cancels])
    made, first, restocked, then, last = told[0], told[1:7], told[7], told[8:10], told[10:]
    assert (made.outcome, restocked.outcome) == (Outcome.MOVED, Outcome.MOVED)
    assert Counter(verdict.outcome for verdict in first) == {Outcome.RESERVED: 4, Outcome.ALL_HELD: 2}
    assert [verdict.outcome for verdict in then] == [Outcome.RESERVED] * 2
    for command, verdict, cancelled in zip(reserves, first, last, strict=True):
        if verdict.reservation is None:
            assert cancelled.outcome is Outcome.NOT_FOUND
        else:
            assert verdict.reservation.reservation_id == command.reservation_id
            assert cancelled.outcome is Outcome.MOVED
    await shop.check(held=2, total=6)
