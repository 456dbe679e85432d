"""The limit per buyer across the sales of a drop is exact on every world, and limits per owner count per sale.

Races come in pairs: a limit that is only counted is exceeded, one that is claimed never.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.checkout.allowances import Allowances
from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Command, Expire, Move, Provision, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.domain.stock.rulebook import LIVE
from holdfast.errors import Busy, OutcomeUnknown
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.allowances import UNDECIDED_MS, Exceeded
from holdfast.ledger.sales.drops import insert_drop
from holdfast.ledger.sales.sales import count_anew, put_pool_in_sale
from holdfast.ledger.tables.stock import reservations
from redis_setup import RedisSetup
from set_clock import SetClock

LIMIT, RACERS, ROUNDS = 2, 4, 6
DROP = Drop(drop_id="winter", name="Winter", starts_at=0, per_buyer_limit=LIMIT)


def sale_of(sku_id: str) -> Sale:
    return Sale(
        sale_id=f"sale-{sku_id}",
        sku_id=sku_id,
        name=sku_id,
        price_amount=100,
        currency="EUR",
        starts_at=0,
        checkout=Checkout.CART,
        payment=PaymentKind.EXTERNAL,
        drop_id=DROP.drop_id,
    )


SALES = [sale_of(f"product-{number}") for number in range(RACERS)]


class World(Struct, frozen=True, eq=False):
    gate: Gate
    clock: SetClock
    catch_up: Callable[[str | None], Awaitable[object]]
    reload: Callable[[str], Awaitable[None]]

    async def prepare(self) -> "World":
        await self.clock.write(lambda c: insert_drop(c, DROP))
        for sale in SALES:
            await self.gate.apply(sale.sku_id, [Provision(100)])
        return self

    async def buy(
        self, limits: Allowances, sale: Sale, buyer_id: str = "ada", key: str | None = None
    ) -> Verdict | Exceeded:
        command = Reserve(new_reservation_id(sale.sku_id, buyer_id), buyer_id, 1, 1, 60_000, key)
        return await limits.reserve(sale, command, lambda: self.decide(sale, command))

    async def decide(self, sale: Sale, command: Command) -> Verdict:
        [verdict] = await self.gate.apply(sale.sku_id, [command])
        return verdict

    async def held(self, sale: Sale, buyer_id: str = "ada") -> str:
        verdict = await self.buy(self.limits(), sale, buyer_id)
        assert isinstance(verdict, Verdict)
        assert verdict.reservation is not None
        return verdict.reservation.reservation_id

    def limits(self) -> Allowances:
        return Allowances(self.clock, self.catch_up)


class OnlyCounts(Allowances):
    """Counts what the buyer has in the drop and then asks the gate, without a claim. All meet between the two."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock, world.catch_up)
        self._ledger, self._meeting = world.clock, asyncio.Barrier(RACERS)

    async def reserve(
        self, sale: Sale, command: Reserve, decide: Callable[[], Awaitable[Verdict]]
    ) -> Verdict | Exceeded:
        def count(connection: Connection) -> int:
            theirs = (reservations.c.owner_id == command.owner_id, reservations.c.status.in_(LIVE))
            return int(connection.execute(select(func.count()).select_from(reservations).where(*theirs)).scalar_one())

        await self._catch_up(sale.sku_id)
        has = await self._ledger.read(count)
        await self._meeting.wait()
        return Exceeded(LIMIT, [], set()) if has + command.quantity > LIMIT else await decide()


async def race(world: World, limits: Allowances, buyer_id: str) -> int:
    """The same buyer at all products at once; gives how many units were granted."""
    answers = await asyncio.gather(*[world.buy(limits, sale, buyer_id) for sale in SALES])
    return sum(isinstance(answer, Verdict) and answer.outcome is Outcome.RESERVED for answer in answers)


async def end(world: World, sale: Sale, reservation_id: str, how: str) -> None:
    if how == "cancelled":
        await world.gate.apply(sale.sku_id, [Move(Transition.CANCEL, reservation_id)])
    elif how == "expired":
        world.clock.advance(60_001)
        await world.gate.apply(sale.sku_id, [Expire(10)])
    else:
        moves = [Move(step, reservation_id) for step in (Transition.SETTLE, Transition.FAIL)]
        await world.gate.apply(sale.sku_id, moves)


class DropLimits:
    async def test_a_limit_that_is_only_counted_is_exceeded(self, world: World) -> None:
        assert await race(world, OnlyCounts(world), "ada") == RACERS > LIMIT

    async def test_a_limit_that_is_claimed_never_is(self, world: World) -> None:
        granted = [await race(world, world.limits(), f"buyer {number}") for number in range(ROUNDS)]
        assert granted == [LIMIT] * ROUNDS

    @pytest.mark.parametrize("how", ["cancelled", "expired", "failed"])
    async def test_the_allowance_returns_with_the_hold(self, world: World, how: str) -> None:
        first, second, third, _ = SALES
        held = await world.held(first)
        other = await world.held(second)
        refused = await world.buy(world.limits(), third)
        assert refused == Exceeded(LIMIT, [other, held] if other > held else [held, other], {"product-0", "product-1"})
        await end(world, first, held, how)
        assert isinstance(await world.buy(world.limits(), third), Verdict)

    async def test_a_purchase_of_unknown_outcome_counts_until_it_is_known(self, world: World) -> None:
        limits, (first, second, third, _) = world.limits(), SALES
        lost = Reserve(new_reservation_id(first.sku_id, "ada"), "ada", 1, 1, 60_000, "once")

        async def lose() -> Verdict:
            raise OutcomeUnknown("the reply was lost")

        with pytest.raises(OutcomeUnknown):
            await limits.reserve(first, lost, lose)
        await world.held(second)
        assert isinstance(await world.buy(limits, third), Exceeded)
        # A retry of the same purchase is not one more.
        assert isinstance(await world.buy(limits, first, key="once"), Verdict)
        assert isinstance(await world.buy(limits, third), Exceeded)
        assert isinstance(await world.buy(limits, first, "bob"), Verdict)

    async def test_a_claim_that_came_to_nothing_is_forgotten(self, world: World) -> None:
        limits, (first, second, third, _) = world.limits(), SALES
        lost = Reserve(new_reservation_id(first.sku_id, "ada"), "ada", LIMIT, LIMIT, 60_000)

        async def lose() -> Verdict:
            raise OutcomeUnknown("the process was killed")

        with pytest.raises(OutcomeUnknown):
            await limits.reserve(first, lost, lose)
        assert isinstance(await world.buy(limits, second), Exceeded)
        world.clock.advance(UNDECIDED_MS + 1)
        assert isinstance(await world.buy(limits, third), Verdict)

    async def test_what_the_gate_refuses_takes_nothing_of_the_allowance(self, world: World) -> None:
        first, second, *_ = SALES
        await world.gate.apply(first.sku_id, [Provision(0)])
        for _ in range(LIMIT + 1):
            refused = await world.buy(world.limits(), first)
            assert isinstance(refused, Verdict)
            assert refused.reservation is None
        assert await race_for_two(world, second) == LIMIT

    async def test_what_the_gate_has_no_time_for_takes_nothing_of_the_allowance(self, world: World) -> None:
        first, second, *_ = SALES
        attempt = Reserve(new_reservation_id(first.sku_id, "ada"), "ada", LIMIT, LIMIT, 60_000)

        def refuse_at_once() -> Awaitable[Verdict]:
            raise Busy("the queue is full")

        with pytest.raises(Busy):
            await world.limits().reserve(first, attempt, refuse_at_once)
        assert isinstance(await world.buy(world.limits(), second), Verdict)

    async def test_limits_per_owner_count_what_was_reserved_in_this_sale(self, world: World) -> None:
        sku_id = SALES[0].sku_id
        await world.gate.apply(sku_id, [Provision(9, Rules(per_owner_limit=1))])
        first = await world.decide(SALES[0], Reserve("a", "ada", 1, 1))
        world.clock.advance(1)
        await world.gate.apply(sku_id, [Move(Transition.CONFIRM, "a")])
        assert first.outcome is Outcome.RESERVED
        assert (await world.decide(SALES[0], Reserve("b", "ada", 1, 1))).outcome is Outcome.BUYER_LIMIT
        await world.catch_up(sku_id)
        sale_id, now = SALES[0].sale_id, world.clock.now
        [name] = await world.clock.write(lambda c: count_anew(c, sku_id, sale_id, now))
        await world.reload(name)
        await world.clock.write(lambda c: put_pool_in_sale(c, sku_id, sale_id, now))
        outcomes = [(await world.decide(SALES[0], Reserve(id_, "ada", 1, 1))).outcome for id_ in ("c", "d")]
        assert outcomes == [Outcome.RESERVED, Outcome.BUYER_LIMIT]

        # Another server was stopped while it loaded this sale, and goes on now that it sells.
        await world.catch_up(sku_id)
        assert await world.clock.write(lambda c: count_anew(c, sku_id, sale_id, now)) == []
        await world.reload(sku_id)
        assert (await world.decide(SALES[0], Reserve("e", "ada", 1, 1))).outcome is Outcome.BUYER_LIMIT


async def race_for_two(world: World, sale: Sale) -> int:
    answers = [await world.buy(world.limits(), sale) for _ in range(LIMIT + 1)]
    return sum(isinstance(answer, Verdict) and answer.outcome is Outcome.RESERVED for answer in answers)


class TestSql(DropLimits):
    @pytest.fixture
    async def world(self, database: Database) -> World:
        async def nothing(_sku_id: str | None) -> None:
            """The gate is the ledger."""

        clock = SetClock(database)
        return await World(SqlGate(clock), clock, nothing, nothing).prepare()


class TestRedis(DropLimits):
    @pytest.fixture
    async def world(self, redis_setup: RedisSetup) -> World:
        async def catch_up(sku_id: str | None) -> None:
            assert sku_id is not None
            await redis_setup.drain(sku_id)

        gate = redis_setup.open_gate()
        return await World(gate, redis_setup.clock, catch_up, redis_setup.rebuilder.reload).prepare()
