"""Sales are created, changed and closed completely, even if a step is interrupted; none opens that does not add up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, select, update
from sqlalchemy.exc import IntegrityError

from conftest import Swept
from holdfast.domain.sale.drop import SALES_MAX, Drop
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale, SaleState
from holdfast.domain.stock.command import Command, Provision, Reserve, Verdict
from holdfast.domain.stock.event_type import EventType
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Unavailable
from holdfast.gate.port import Gate
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.shards.restock import RedisRestocker
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_audit import SqlAudit
from holdfast.ledger.room.rooms import update_room
from holdfast.ledger.sales.drops import insert_drop
from holdfast.ledger.sales.sale_lists import is_in_sale
from holdfast.ledger.sales.sales import find_sale, insert_sale
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import events, pools
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import SigningKey
from holdfast.sales.inspection import CatchUp, Inspector
from holdfast.sales.lifecycle import CHECK_BEFORE_MS, SaleLifecycle
from holdfast.sales.loading import RESUME_AFTER_MS, Loader
from holdfast.sales.operations import Created, Refusal, SaleOperations
from holdfast.testing.states import NOW
from redis_setup import RedisSetup
from set_clock import SetClock
from valkeys import ValkeyProcess

SEALER = Sealer([SigningKey("k", "s" * 32)])

SKU = "sneaker"
STARTS_AT = NOW + 3_600_000
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=STARTS_AT,
    ends_at=STARTS_AT + 60_000,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
    loaded_units=5,
)


class Stall:
    """Everything a sale needs, on one engine, by a clock that the test sets."""

    def __init__(
        self,
        clock: SetClock,
        gate: Gate,
        reconciler: Reconciler,
        catch_up: CatchUp,
        redis: RedisSetup | None = None,
    ) -> None:
        self.clock, self.gate, self.redis = clock, gate, redis
        self.reconciler = reconciler
        self.inspector = Inspector(reconciler, catch_up)
        self.loader = Loader(clock, gate, self.inspector, catch_up)
        self.lifecycle = SaleLifecycle(clock, self.loader, self.inspector)
        restocker = None if redis is None else RedisRestocker(clock, redis.splits, redis.transfers)
        self.office = SaleOperations(clock, gate, self.loader, {}, SEALER, restocker)
        self.catch_up = catch_up

    async def sale(self) -> Sale:
        found = await self.clock.read(lambda c: find_sale(c, SALE.sale_id))
        assert found is not None
        return found

    async def try_to_buy(self) -> Outcome:
        [verdict] = await self.gate.apply(SKU, [Reserve("rsv_1", "ada", 1, 1)])
        return verdict.outcome

    async def told(self) -> list[tuple[str, str]]:
        published = events.c.type.like("sale.%") & events.c.type.in_(list(EventType))
        wanted = select(events.c.type, events.c.subject).where(published).order_by(events.c.seq)
        return [(row[0], row[1]) for row in await self.clock.read(lambda c: list(c.execute(wanted)))]

    async def pass_later(self, ms: int = RESUME_AFTER_MS) -> None:
        self.clock.advance(ms)
        await self.lifecycle.pass_once()


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def site(request: pytest.FixtureRequest) -> tuple[str, ValkeyProcess | None]:
    """The ledger's address, and the gate, if that is another."""
    if request.param == "sqlite":
        return request.getfixturevalue("_swept_sqlite_url"), None
    url = request.getfixturevalue("_swept_postgres_url")
    return url, request.getfixturevalue("valkey_server") if request.param == "redis" else None


@pytest.fixture
async def stall(site: tuple[str, ValkeyProcess | None], swept: Swept) -> AsyncIterator[Stall]:
    url, valkey = site
    database = await swept(url)
    if valkey is not None:
        valkey.command("FLUSHALL")
        world = RedisSetup(database, valkey.url)
        yield Stall(world.clock, world.open_gate(), world.reconciler, world.drainer.catch_up, world)
        await world.close()
        return
    clock = SetClock(database)

    async def nothing(_sku_id: str | None) -> None:
        """The ledger is the gate."""

    yield Stall(clock, SqlGate(clock), Reconciler(clock, SqlAudit(clock)), nothing)


async def made(stall: Stall, sale: Sale = SALE) -> Sale:
    created = await stall.office.create(sale)
    assert isinstance(created, Created)
    return created.sale


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


class Interrupted(Exception):
    pass


class FailingDatabase:
    """The real one, until the n-th time it is asked for something: then whoever asked is gone."""

    def __init__(self, clock: SetClock, after: int) -> None:
        self._clock, self._left = clock, after
        self.dialect_name, self.guard = clock.dialect_name, clock.guard

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted

    async def write(self, work: Any, **more: Any) -> Any:
        self._count()
        return await self._clock.write(work, **more)

    async def read(self, work: Any) -> Any:
        self._count()
        return await self._clock.read(work)

    async def lock_free_read(self, work: Any) -> Any:
        self._count()
        return await self._clock.lock_free_read(work)

    def now_ms(self, connection: Connection) -> int:
        return self._clock.now_ms(connection)

    def known_now_ms(self) -> int | None:
        return self._clock.known_now_ms()

    def clock_step_ms(self) -> int:
        return 0

    async def close(self) -> None: ...


class FailingGate:
    """Decides, or does not, and then whoever asked is gone."""

    def __init__(self, gate: Gate, *, decides: bool, calls: int = 1) -> None:
        self._gate, self._decides, self._left = gate, decides, calls

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self._left -= 1
        if self._left > 0:
            return await self._gate.apply(sku_id, commands)
        if self._decides:
            await self._gate.apply(sku_id, commands)
        raise Interrupted


async def until_ready(stall: Stall) -> Sale:
    """Two turns of the lifecycle are enough, whatever was done before. A pool that was on its way into Redis is brought
    there by the reconciler, once nobody else can be at it."""
    async with asyncio.timeout(60):
        while True:
            for _ in range(2):
                await stall.pass_later()
            if (sale := await stall.sale()).state is SaleState.READY:
                return sale
            await stall.reconciler.pass_once()
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_sale_whose_maker_died_between_any_two_steps_is_made_all_the_same(stall: Stall, steps: int) -> None:
    dying = FailingDatabase(stall.clock, steps)
    loader = Loader(dying, stall.gate, stall.inspector, stall.catch_up)
    try:
        await SaleOperations(dying, stall.gate, loader, {}, SEALER).create(SALE)
    except Interrupted:
        assert (await stall.sale()).state is SaleState.LOADING or steps > 4
    sale = await until_ready(stall)
    assert (sale.state, sale.problem) == (SaleState.READY, None)
    stall.clock.now = STARTS_AT
    assert await stall.try_to_buy() is Outcome.RESERVED


@pytest.mark.parametrize("decides", [True, False])
@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_sale_whose_maker_died_while_it_told_the_gate_is_made_all_the_same(
    stall: Stall, calls: int, decides: bool
) -> None:
    gate = FailingGate(stall.gate, decides=decides, calls=calls)
    loader = Loader(stall.clock, gate, stall.inspector, stall.catch_up)
    with pytest.raises(Interrupted):
        await SaleOperations(stall.clock, gate, loader, {}, SEALER).create(SALE)
    sale = await until_ready(stall)
    assert (sale.state, sale.problem) == (SaleState.READY, None)
    stall.clock.now = STARTS_AT
    assert await stall.try_to_buy() is Outcome.RESERVED


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8, 16, 32])
async def test_a_request_that_is_cancelled_leaves_a_sale_that_is_made_later(stall: Stall, delay_ms: int) -> None:
    making = asyncio.create_task(stall.office.create(SALE))
    await asyncio.sleep(delay_ms / 1000)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    await asyncio.sleep(0.05)  # What was handed to the database's thread cannot be called back.
    if await stall.clock.read(lambda c: find_sale(c, "drop")) is not None:
        await until_ready(stall)
        stall.clock.now = STARTS_AT
        assert await stall.try_to_buy() is Outcome.RESERVED


async def test_a_sale_that_is_being_made_is_left_to_its_maker_for_a_while(stall: Stall) -> None:
    loading = replace(SALE, created_at=NOW, updated_at=NOW)
    await stall.clock.write(lambda c: insert_sale(c, loading))
    await stall.pass_later(RESUME_AFTER_MS - 1)
    assert (await stall.sale()).state is SaleState.LOADING
    await stall.pass_later(1)
    assert (await stall.sale()).state is SaleState.READY


async def test_restocked_units_stay_when_a_sale_is_loaded_again(stall: Stall) -> None:
    await made(stall)
    answer = await stall.office.restock("drop", 7)
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
            await stall.office.restock("drop", 7)
    finally:
        await stall.clock.write(lambda c: c.exec_driver_sql(accept))
    [verdict] = await stall.gate.apply(SKU, [Provision(None)])
    assert verdict.pool is not None
    assert verdict.pool.total == 5
    await stall.office.restock("drop", 7)
    assert (await stall.sale()).deliverable_units == 12


async def test_a_restock_that_redis_does_not_hear_of_is_done_once_and_arrives_later(redis_setup: RedisSetup) -> None:
    world, away = redis_setup, RedisSetup(redis_setup.database, "redis://127.0.0.1:1")
    stall = Stall(world.clock, world.open_gate(), world.reconciler, world.drainer.catch_up, world)
    await made(stall)
    restocker = RedisRestocker(world.clock, away.splits, away.transfers)
    office = SaleOperations(world.clock, stall.gate, stall.loader, {}, SEALER, restocker)
    assert isinstance(await office.restock("drop", 7), tuple)
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


async def test_a_pause_that_never_reached_the_gate_does_within_seconds(stall: Stall) -> None:
    await made(stall, replace(SALE, starts_at=NOW, ends_at=None))
    await stall.lifecycle.pass_once()
    gate = FailingGate(stall.gate, decides=False)
    dying = SaleOperations(stall.clock, gate, Loader(stall.clock, gate, stall.inspector, stall.catch_up), {}, SEALER)
    with pytest.raises(Interrupted):
        await dying.pause("drop", paused=True)
    assert await stall.try_to_buy() is Outcome.RESERVED
    await stall.catch_up(SKU)
    await stall.pass_later(10_000)
    assert await stall.try_to_buy() is Outcome.PAUSED


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
    changed = await stall.office.change("drop", {"name": "New", "per_buyer_limit": 2})
    assert isinstance(changed, Sale)
    closed = await stall.office.close("drop")
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
    assert isinstance(await stall.office.change("drop", {"room": Room(RoomMode.OFF)}), Sale)
    assert await stall.office.change("drop", {"room": Room(other)}) is Refusal.ORDER_FIXED
    assert isinstance(await stall.office.change("drop", {"room": Room(joined)}), Sale)


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_change_to_the_pool_that_was_underway_when_the_sale_was_created(stall: Stall, is_guarded: bool) -> None:
    """Unguarded, it changes what is sold: whether there was a sale was asked before there was one."""
    assert not await stall.clock.read(lambda c: is_in_sale(c, SKU))
    await stall.office.create(SALE)
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
    assert isinstance(await stall.office.change("drop", {"room": Room(RoomMode.OFF)}), Sale)
    await stall.clock.write(lambda c: update_room(c, "drop", stall.clock.now, {"mode": None, "joined": 1, **called}))
    for mode in (RoomMode.LOTTERY, RoomMode.FIFO):
        changed = await stall.office.change("drop", {"room": Room(mode)})
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
    assert isinstance(await stall.office.create(last), Created)
    assert SALES_MAX == 50
    assert await stall.office.create(replace(SALE, drop_id="spring")) is Refusal.DROP_FULL
