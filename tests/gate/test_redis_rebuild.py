"""A pool is rebuilt in portions, however much it has; and a rebuild in progress is left alone."""

import asyncio
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from redis_tampering import EMPTY, KEYS, Through, check_books, client, over
from sqlalchemy import Connection
from sqlalchemy.event import listen

from holdfast.domain.stock.command import Command as DomainCommand
from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import Unavailable
from holdfast.gate.redis import audit
from holdfast.gate.redis.encoding import decode
from holdfast.gate.redis.link.port import Command, RedisLink
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.stock import gate_state
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

OWNERS = 20


async def fill(world: RedisSetup) -> None:
    """Many owners, each with a hold, one that is being paid for, one sold and one given back."""
    gate = world.open_gate()
    await gate.apply(SKU, [Provision(1_000, Rules(per_owner_limit=5, hold_budget=3))])
    for number in range(OWNERS):
        owner = f"owner-{number * 7 % OWNERS:02}"
        names = [f"{owner}-{letter}" for letter in "abcd"]
        moves: list[DomainCommand] = [
            Move(Transition.SETTLE, names[1]),
            Move(Transition.CONFIRM, names[2]),
            Move(Transition.CANCEL, names[3]),
        ]
        await gate.apply(SKU, [*(reserve(name, owner, key=f"key-{name}") for name in names), *moves])
    await world.drain(SKU)


def what_redis_has(valkey: ValkeyProcess) -> dict[str, Any]:
    with client(valkey) as redis:
        owners = {name: decode(stored) for name, stored in redis.hgetall(KEYS.owners).items() if name}
        return {
            "holds": redis.hgetall(KEYS.holds),
            "deadlines": redis.zrange(KEYS.deadlines, 0, -1, withscores=True),
            "owners": {name: (live, released, sorted(active)) for name, (live, released, active) in owners.items()},
            "keys": set(redis.hkeys(KEYS.keys)),
        }


# Each owner has four: portions that end within an owner, and with the last row there is.
@pytest.mark.parametrize("portion", [3, 4])
async def test_a_pool_that_takes_many_portions_is_rebuilt_as_it_was(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    await fill(redis_setup)
    before = what_redis_has(valkey_server)
    assert [len(part) for part in before.values()] == [2 * OWNERS + EMPTY, OWNERS + EMPTY, OWNERS, 4 * OWNERS + EMPTY]
    monkeypatch.setattr(gate_state, "PORTION", portion)
    valkey_server.command("FLUSHALL")
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    assert what_redis_has(valkey_server) == before
    await check_books(redis_setup)
    [refused] = await redis_setup.open_gate().apply(SKU, [reserve("new", "owner-03", quantity=3)])
    assert refused.outcome is Outcome.BUYER_LIMIT


@pytest.mark.parametrize("portion", [1, 3, 79, 80, 81])
async def test_portions_give_every_row_once_and_end(
    redis_setup: RedisSetup, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    await fill(redis_setup)
    monkeypatch.setattr(gate_state, "PORTION", portion)
    portions = redis_setup.rebuilder._portions
    with_owners = [found async for found in portions(SKU, gate_state.holds_and_owners_after)]
    holds = [one for found in with_owners for one in found.holds]
    assert holds == [one async for found in portions(SKU, gate_state.holds_after) for one in found.holds]
    keys = [one async for found in portions(SKU, gate_state.remembered_after) for one in found]
    assert (len(holds), len(keys)) == (2 * OWNERS, 4 * OWNERS)
    ids = [hold.reservation_id for hold in holds]
    assert all(one < other for one, other in pairwise(sorted(ids)))
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for found in with_owners:
        for name, (live, released, active) in found.owners.items():
            counted[name].update(live=live, released=released, active=len(active))
    assert list(counted.values()) == [Counter(live=3, released=1, active=1)] * OWNERS


async def plans_of_a_portion(database: Database) -> list[str]:
    """How the engine finds it, in a pool of whose size it has no statistics."""
    gate = SqlGate(database)
    holds = [reserve(f"b{number}", "ada", key=f"b{number}") for number in range(3_000)]
    await gate.apply(SKU, [Provision(len(holds), Rules(hold_budget=1)), *holds])
    explain = "EXPLAIN" if database.dialect_name == "postgresql" else "EXPLAIN QUERY PLAN"

    def plans(connection: Connection) -> list[str]:
        asked: list[tuple[str, Any]] = []
        listen(connection, "before_cursor_execute", lambda *told: asked.append((told[2], told[3])))
        for read in (gate_state.holds_after, gate_state.holds_and_owners_after):
            read(connection, SKU, ("a",))
        gate_state.remembered_after(connection, SKU, ("a", "b"))
        selects = [(text, values) for text, values in asked if "SELECT" in text]
        return [row[-1] for text, values in selects for row in connection.exec_driver_sql(f"{explain} {text}", values)]

    return await database.read(plans)


async def test_a_portion_looks_at_no_more_than_its_part_of_the_pool(database_url: str) -> None:
    """However many there are besides: else a rebuild takes the square of them, and is taken for stuck."""
    database = open_database(database_url)
    await migrate(database)
    found = await plans_of_a_portion(database)
    await database.close()
    assert not [line for line in found if "Sort" in line or "TEMP B-TREE" in line], found
    if database_url.startswith("sqlite"):
        searches = [line for line in found if "reservations" in line]
        assert len(searches) == 4
        assert all("reservations_by_sku (sku_id=? AND reservation_id>?" in line for line in searches), found


class Counting(Through):
    loads = 0

    async def call(self, key: str, *commands: Command) -> list[Any]:
        self.loads += is_load(commands)
        return await super().call(key, *commands)


async def test_a_rebuild_that_reads_on_and_finds_nothing_shows_that_it_goes_on(
    redis_setup: RedisSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = redis_setup.open_gate()
    sold = [f"sold-{number}" for number in range(20)]
    await gate.apply(SKU, [Provision(100), *map(reserve, sold)])
    await gate.apply(SKU, [Move(Transition.CONFIRM, name) for name in sold])
    await redis_setup.drain(SKU)
    monkeypatch.setattr(gate_state, "PORTION", 2)
    at = await redis_setup.position(SKU)
    assert at is not None
    link = Counting(redis_setup.link)
    await Rebuilder(redis_setup.clock, over(link), redis_setup.drainer).rebuild(SKU, at, "test")
    # The last portion of holds and that of keys are loaded too, although there is nothing in them.
    assert link.loads == len(sold) / 2 + 2
    await check_books(redis_setup)


def is_load(commands: tuple[Command, ...]) -> bool:
    return commands[0][:2] == ["FCALL", "holdfast_load_v2"]


class Halting(Through):
    """Loads one portion after another, and waits before every second one until it is told to go on."""

    def __init__(self, link: RedisLink) -> None:
        super().__init__(link)
        self.loads, self.halted, self.go_on = 0, asyncio.Event(), asyncio.Event()
        self._turn = asyncio.Lock()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        if not is_load(commands):
            return await super().call(key, *commands)
        async with self._turn:
            self.loads += 1
            if self.loads % 2 == 0:
                self.halted.set()
                await self.go_on.wait()
            return await super().call(key, *commands)


async def test_a_rebuild_that_goes_on_is_not_stuck_and_one_that_does_not_is(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(redis_setup)
    before = what_redis_has(valkey_server)
    monkeypatch.setattr(gate_state, "PORTION", 3)
    monkeypatch.setattr(audit, "STUCK_AFTER_S", 0.0)
    link = Halting(redis_setup.link)
    slow = Rebuilder(redis_setup.clock, over(link), redis_setup.drainer)
    at = await redis_setup.position(SKU)
    assert at is not None
    rebuilding = asyncio.create_task(slow.rebuild(SKU, at, "test"))
    # Through holds, owners and keys.
    for _ in range(20):
        await link.halted.wait()
        link.halted.clear()
        # It is further than at the look before, whatever time has passed.
        assert (await redis_setup.reconciler.pass_once())[SKU].finding is None
        link.go_on.set()
        link.go_on = asyncio.Event()
    await link.halted.wait()
    await redis_setup.reconciler.pass_once()
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == "stuck"
    link.go_on.set()
    with pytest.raises(Exception, match="another process rebuilds it"):
        await rebuilding
    # Of what the first had loaded nothing is left, nor is anything counted twice.
    assert what_redis_has(valkey_server) == before
    await check_books(redis_setup)


class HaltingBefore(Through):
    """Waits before it first calls a function, until it is told to go on."""

    def __init__(self, link: RedisLink, function: str) -> None:
        super().__init__(link)
        self._function = function
        self.halted, self.go_on = asyncio.Event(), asyncio.Event()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        if commands[0][:2] == ["FCALL", self._function]:
            self.halted.set()
            await self.go_on.wait()
        return await super().call(key, *commands)


async def test_a_slow_rebuild_cannot_open_an_epoch_that_another_rebuild_has_ended(redis_setup: RedisSetup) -> None:
    """What is reserved in it would be acknowledged, and gone when the other rebuild loads the next epoch."""
    await redis_setup.open_gate().apply(SKU, [Provision(10)])

    async def begin_rebuild() -> tuple[HaltingBefore, "asyncio.Task[None]"]:
        """Up to the new epoch in the ledger, which Redis does not know of yet."""
        link, at = HaltingBefore(redis_setup.link, "holdfast_begin_v2"), await redis_setup.position(SKU)
        assert at is not None
        rebuilder = Rebuilder(redis_setup.clock, over(link), redis_setup.drainer)
        task = asyncio.create_task(rebuilder.rebuild(SKU, at, "test"))
        await link.halted.wait()
        return link, task

    slow_link, slow = await begin_rebuild()
    buyer_link = HaltingBefore(redis_setup.link, "holdfast_apply_v2")
    buyer = asyncio.create_task(redis_setup.open_gate(over(buyer_link)).apply(SKU, [reserve("late")]))
    await buyer_link.halted.wait()
    next_link, following = await begin_rebuild()
    slow_link.go_on.set()
    with pytest.raises(Unavailable, match="another process rebuilds it"):
        await slow
    buyer_link.go_on.set()
    [verdict] = await buyer
    assert verdict.outcome is Outcome.NOT_READY
    next_link.go_on.set()
    await following
    await check_books(redis_setup)
