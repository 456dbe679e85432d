"""Sales are created, changed and closed completely; none opens that does not add up."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, update
from sqlalchemy.exc import IntegrityError
from stall import SALE, SEALER, SKU, STARTS_AT, Stall, made, until_ready

from holdfast.domain.sale.drop import SALES_MAX, Drop
from holdfast.domain.sale.sale import Room, RoomMode, Sale, SaleState
from holdfast.domain.stock.command import Command, Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Unavailable
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.shards.restock import RedisRestocker
from holdfast.ledger.room.rooms import update_room
from holdfast.ledger.sales.drops import insert_drop
from holdfast.ledger.sales.sale_lists import is_in_sale
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import pools
from holdfast.sales.lifecycle import CHECK_BEFORE_MS, SaleLifecycle
from holdfast.sales.loading import RESUME_AFTER_MS, Loader
from holdfast.sales.operations import Created, Refusal, SaleOperations
from holdfast.testing.states import NOW
from redis_setup import RedisSetup

pytest_plugins = ("stall_fixtures",)


async def test_a_sale_is_made_opens_and_ends_and_each_is_told_once(stall: Stall) -> None:
    assert (await made(stall)).state is SaleState.READY
    assert await stall.try_to_buy() is Outcome.NOT_OPEN
    stall.clock.now = STARTS_AT
    for _ in range(3):
        await stall.lifecycle.pass_once()
    assert await stall.try_to_buy() is Outcome.RESERVED
    stall.clock.now = STARTS_AT + 60_000
    for _ in range(3):
        await stall.lifecycle.pass_once()
    assert await stall.told() == [("sale.opened", "drop"), ("sale.closed", "drop")]
    ended = await stall.sale()
    assert (ended.state, ended.opened_at, ended.closed_at) == (SaleState.CLOSED, STARTS_AT, STARTS_AT + 60_000)
    assert await stall.try_to_buy() is Outcome.ENDED


async def test_several_lifecycles_tell_it_once(stall: Stall) -> None:
    await made(stall)
    others = [SaleLifecycle(stall.clock, stall.loader, stall.inspector) for _ in range(3)]
    for moment in (STARTS_AT, STARTS_AT + 60_000, STARTS_AT + 60_001):
        stall.clock.now = moment
        await asyncio.gather(*[lifecycle.pass_once() for lifecycle in (stall.lifecycle, *others)])
    assert await stall.told() == [("sale.opened", "drop"), ("sale.closed", "drop")]


async def test_restocked_units_stay_when_a_sale_is_loaded_again(stall: Stall) -> None:
    await made(stall)
    answer = await stall.operations.restock("drop", 7)
    assert isinstance(answer, tuple)
    await stall.loader.block(await stall.sale(), "somebody wanted to look")
    assert await stall.try_to_buy() in (Outcome.NOT_OPEN, Outcome.PAUSED)
    sale = await until_ready(stall)
    assert sale.state is SaleState.READY
    [verdict] = await stall.gate.apply(SKU, [Provision(None)])
    assert verdict.pool is not None
    assert verdict.pool.total == 12


_REFUSE = "CREATE TRIGGER refused BEFORE UPDATE OF deliverable_units ON sales FOR EACH ROW"
# By engine: how to make the ledger refuse other numbers of deliverable units, and how to stop that.
_REFUSING = {
    "sqlite": ([f"{_REFUSE} BEGIN SELECT RAISE(ABORT, 'refused'); END"], "DROP TRIGGER refused"),
    "postgresql": (
        [
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$",
            f"{_REFUSE} EXECUTE FUNCTION refuse()",
        ],
        "DROP FUNCTION refuse CASCADE",
    ),
}


async def test_a_restock_without_a_key_is_not_done_by_halves(stall: Stall) -> None:
    await made(stall)
    await stall.clock.write(lambda c: c.execute(update(sales).values(deliverable_units=5)))
    refuse, accept = _REFUSING[stall.clock.dialect_name]
    await stall.clock.write(lambda c: [c.exec_driver_sql(statement) for statement in refuse])
    try:
        with pytest.raises((Unavailable, IntegrityError)):
            await stall.operations.restock("drop", 7)
    finally:
        await stall.clock.write(lambda c: c.exec_driver_sql(accept))
    [verdict] = await stall.gate.apply(SKU, [Provision(None)])
    assert verdict.pool is not None
    assert verdict.pool.total == 5
    await stall.operations.restock("drop", 7)
    assert (await stall.sale()).deliverable_units == 12


async def test_a_restock_that_redis_does_not_hear_of_is_done_once_and_arrives_later(redis_setup: RedisSetup) -> None:
    world, away = redis_setup, RedisSetup(redis_setup.database, "redis://127.0.0.1:1")
    stall = Stall(world.clock, world.open_gate(), world.reconciler, world.drainer.catch_up, world)
    await made(stall)
    restocker = RedisRestocker(world.clock, away.splits, away.transfers)
    operations = SaleOperations(world.clock, stall.gate, stall.loader, {}, SEALER, restocker)
    assert isinstance(await operations.restock("drop", 7), tuple)
    await away.close()
    for _ in range(2):
        await world.transfers.deliver([SKU])
    assert (await world.gate_pool(SKU)).pool.total == 12


def _tamper_ledger(connection: Connection) -> None:
    connection.execute(update(pools).values(held=pools.c.held + 1))


async def test_a_ledger_that_does_not_add_up_keeps_a_sale_from_opening_and_is_named(stall: Stall) -> None:
    await made(stall)
    await stall.catch_up(SKU)
    await stall.clock.write(_tamper_ledger)
    stall.clock.now = STARTS_AT - CHECK_BEFORE_MS
    await stall.lifecycle.pass_once()
    shut = await stall.sale()
    assert shut.state is SaleState.LOADING
    assert shut.problem is not None
    assert "ledger" in shut.problem
    stall.clock.now = STARTS_AT
    assert await stall.try_to_buy() in (Outcome.PAUSED, Outcome.NOT_READY)


async def test_a_sale_that_adds_up_again_opens_by_itself(stall: Stall) -> None:
    await made(stall)
    await stall.clock.write(_tamper_ledger)
    stall.clock.now = STARTS_AT - CHECK_BEFORE_MS
    await stall.lifecycle.pass_once()
    assert (await stall.sale()).state is SaleState.LOADING
    await stall.clock.write(lambda c: c.execute(update(pools).values(held=0)).rowcount)
    if stall.redis is not None:
        await stall.redis.reconciler.pass_once(thorough=True)
    sale = await until_ready(stall)
    assert (sale.state, sale.problem) == (SaleState.READY, None)


async def test_a_gate_with_other_units_than_the_ledger_keeps_a_sale_from_opening_and_is_named(
    redis_setup: RedisSetup,
) -> None:
    world = redis_setup
    stall = Stall(world.clock, world.open_gate(), world.reconciler, world.drainer.catch_up, world)
    await made(stall)
    await world.link.call(Keys(SKU).pool, ["HINCRBY", Keys(SKU).pool, "total", 1])
    stall.clock.now = STARTS_AT - CHECK_BEFORE_MS
    await stall.lifecycle.pass_once()
    shut = await stall.sale()
    assert (shut.state, shut.problem) == (
        SaleState.LOADING,
        "gate and ledger differ: total is 6 in the gate and 5 in the ledger",
    )


async def test_rules_changed_behind_the_back_of_a_sale_are_put_right(stall: Stall) -> None:
    await made(stall, replace(SALE, starts_at=NOW, ends_at=None))
    await stall.lifecycle.pass_once()
    await stall.gate.apply(SKU, [Provision(None, replace(SALE.rules, paused=True))])
    await stall.catch_up(SKU)
    await stall.pass_later(10_000)
    assert await stall.try_to_buy() is Outcome.RESERVED


async def test_a_gate_that_is_away_leaves_the_sale_for_the_next_pass(stall: Stall) -> None:
    loading = replace(SALE, created_at=NOW, updated_at=NOW)
    await stall.clock.write(lambda c: insert_sale(c, loading))

    class Away:
        async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
            raise Unavailable(f"cannot reach {sku_id} for {len(commands)}")

    loader = Loader(stall.clock, Away(), stall.inspector, stall.catch_up)
    away = SaleLifecycle(stall.clock, loader, stall.inspector)
    stall.clock.advance(RESUME_AFTER_MS)
    await away.pass_once()
    assert (await stall.sale()).state is SaleState.LOADING
    await stall.pass_later()
    assert (await stall.sale()).state is SaleState.READY


async def test_a_sale_that_never_got_its_pool_can_be_changed_and_closed(stall: Stall) -> None:
    loading = replace(SALE, created_at=NOW, updated_at=NOW)
    await stall.clock.write(lambda c: insert_sale(c, loading))
    changed = await stall.operations.change("drop", {"name": "New", "per_buyer_limit": 2})
    assert isinstance(changed, Sale)
    closed = await stall.operations.close("drop")
    assert isinstance(closed, Sale)
    assert (closed.name, closed.per_buyer_limit, closed.state) == ("New", 2, SaleState.CLOSED)
    await stall.pass_later()
    assert await stall.told() == [("sale.closed", "drop")]


@pytest.mark.parametrize(("joined", "other"), [(RoomMode.LOTTERY, RoomMode.FIFO), (RoomMode.FIFO, RoomMode.LOTTERY)])
async def test_the_order_stays_in_a_room_of_an_earlier_release_too(
    stall: Stall, joined: RoomMode, other: RoomMode
) -> None:
    await made(stall, replace(SALE, room=Room(joined)))
    await stall.clock.write(lambda c: update_room(c, "drop", stall.clock.now, {"mode": None, "joined": 1}))
    assert isinstance(await stall.operations.change("drop", {"room": Room(RoomMode.OFF)}), Sale)
    assert await stall.operations.change("drop", {"room": Room(other)}) is Refusal.ORDER_FIXED
    assert isinstance(await stall.operations.change("drop", {"room": Room(joined)}), Sale)


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_change_to_the_pool_that_was_underway_when_the_sale_was_created(stall: Stall, is_guarded: bool) -> None:
    """Unguarded, it changes what is sold: whether there was a sale was asked before there was one."""
    assert not await stall.clock.read(lambda c: is_in_sale(c, SKU))
    await stall.operations.create(SALE)
    [verdict] = await stall.gate.apply(SKU, [Provision(50, unless_in_sale=is_guarded)])
    assert verdict.pool is not None
    assert (verdict.outcome.is_success, verdict.pool.total) == ((False, 5) if is_guarded else (True, 50))


@pytest.mark.parametrize(
    ("called", "joined_for"),
    [({}, None), ({"entrants": 1}, RoomMode.LOTTERY), ({"serving": 1}, RoomMode.FIFO)],
    ids=["nobody was called", "drawn", "called in order"],
)
async def test_the_order_stays_in_a_room_that_was_off_when_an_earlier_release_was_upgraded(
    stall: Stall, called: dict[str, int], joined_for: RoomMode | None
) -> None:
    await made(stall, replace(SALE, room=Room(RoomMode.LOTTERY)))
    assert isinstance(await stall.operations.change("drop", {"room": Room(RoomMode.OFF)}), Sale)
    await stall.clock.write(lambda c: update_room(c, "drop", stall.clock.now, {"mode": None, "joined": 1, **called}))
    for mode in (RoomMode.LOTTERY, RoomMode.FIFO):
        changed = await stall.operations.change("drop", {"room": Room(mode)})
        assert (changed is Refusal.ORDER_FIXED) == (mode is not joined_for)


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
async def test_a_drop_has_fifty_sales_at_most(stall: Stall) -> None:
    def work(connection: Connection) -> None:
        insert_drop(connection, Drop(drop_id="spring", name="Spring", starts_at=0))
        for number in range(SALES_MAX - 1):
            other = replace(SALE, sale_id=f"sale-{number}", sku_id=f"sku-{number}", drop_id="spring")
            insert_sale(connection, other)

    await stall.clock.write(work)
    last = replace(SALE, sale_id="last", sku_id="last", drop_id="spring")
    assert isinstance(await stall.operations.create(last), Created)
    assert SALES_MAX == 50
    assert await stall.operations.create(replace(SALE, drop_id="spring")) is Refusal.DROP_FULL
