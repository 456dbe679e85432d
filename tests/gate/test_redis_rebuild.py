"""A pool is rebuilt in portions, however much it has; and whoever is at it is left alone."""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from redis_tampering import KEYS, Through, check_books, client, over
from sqlalchemy import Connection
from sqlalchemy.event import listen

from holdfast.domain.command import Command as DomainCommand
from holdfast.domain.command import Move, Provision, Transition
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Rules
from holdfast.gate.encoding import decode
from holdfast.gate.link.port import Command, RedisLink
from holdfast.gate.sql import SqlGate
from holdfast.ledger import gate_state
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.migrate import migrate
from holdfast.settlement import rebuild, reconcile
from holdfast.settlement.rebuild import Rebuilder
from redis_world import RedisWorld
from valkeys import ValkeyProcess
from worlds import SKU, reserve

OWNERS = 20


async def fill(world: RedisWorld) -> None:
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
        owners = {name: decode(stored) for name, stored in redis.hgetall(KEYS.owners).items()}
        return {
            "holds": redis.hgetall(KEYS.holds),
            "deadlines": redis.zrange(KEYS.deadlines, 0, -1, withscores=True),
            "owners": {name: (live, let_go, sorted(active)) for name, (live, let_go, active) in owners.items()},
            "keys": set(redis.scan_iter(match=KEYS.prefix + "key:*")),
        }


# Each owner has four: portions that end within an owner, and with the last row there is.
@pytest.mark.parametrize("portion", [3, 4])
async def test_a_pool_that_takes_many_portions_is_rebuilt_as_it_was(
    redis_world: RedisWorld, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    await fill(redis_world)
    before = what_redis_has(valkey_server)
    assert [len(part) for part in before.values()] == [2 * OWNERS, OWNERS, OWNERS, 4 * OWNERS]
    monkeypatch.setattr(gate_state, "PORTION", portion)
    monkeypatch.setattr(rebuild, "PORTION", 3)
    valkey_server.command("FLUSHALL")
    for _ in range(2):
        await redis_world.reconciler.pass_once()
    assert what_redis_has(valkey_server) == before
    await check_books(redis_world)
    [refused] = await redis_world.open_gate().apply(SKU, [reserve("new", "owner-03", quantity=3)])
    assert refused.outcome is Outcome.BUYER_LIMIT


@pytest.mark.parametrize("portion", [1, 3, 79, 80, 81])
async def test_portions_give_every_row_once_and_end(
    redis_world: RedisWorld, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    await fill(redis_world)
    monkeypatch.setattr(gate_state, "PORTION", portion)
    portions = redis_world.rebuilder._portions
    holds = [one async for found in portions(SKU, gate_state.holds_after) for one in found]
    owners = [one async for found in portions(SKU, gate_state.owners_after) for one in found]
    keys = [one async for found in portions(SKU, gate_state.remembered_after) for one in found]
    assert (len(holds), len(keys)) == (2 * OWNERS, 4 * OWNERS)
    ids = [hold.reservation_id for hold in holds]
    assert all(one < other for one, other in pairwise(sorted(ids)))
    counted = [sum((Counter(of_owner(o)) for o in owners if o.owner_id == name), Counter()) for name in owner_names()]
    assert counted == [Counter(live=3, let_go=1, active=1)] * OWNERS


def owner_names() -> list[str]:
    return [f"owner-{number:02}" for number in range(OWNERS)]


def of_owner(owner: gate_state.Owner) -> dict[str, int]:
    return {"live": owner.live_units, "let_go": owner.let_go, "active": len(owner.active)}


async def plans_of_a_portion(database: Database) -> list[str]:
    """How the engine finds it, in a pool of whose size it has no statistics."""
    gate = SqlGate(database)
    holds = [reserve(f"b{number}", "ada", key=f"b{number}") for number in range(3_000)]
    await gate.apply(SKU, [Provision(len(holds), Rules(hold_budget=1)), *holds])
    explain = "EXPLAIN" if database.dialect_name == "postgresql" else "EXPLAIN QUERY PLAN"

    def plans(connection: Connection) -> list[str]:
        asked: list[tuple[str, Any]] = []
        listen(connection, "before_cursor_execute", lambda *told: asked.append((told[2], told[3])))
        for read in (gate_state.holds_after, gate_state.owners_after):
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
    redis_world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = redis_world.open_gate()
    sold = [f"sold-{number}" for number in range(20)]
    await gate.apply(SKU, [Provision(100), *map(reserve, sold)])
    await gate.apply(SKU, [Move(Transition.CONFIRM, name) for name in sold])
    await redis_world.drain(SKU)
    monkeypatch.setattr(gate_state, "PORTION", 2)
    at = await redis_world.position(SKU)
    assert at is not None
    link = Counting(redis_world.link)
    await Rebuilder(redis_world.clock, over(link), redis_world.drainer).rebuild(SKU, at, "test")
    assert link.loads == len(sold) / 2
    await check_books(redis_world)


def is_load(commands: tuple[Command, ...]) -> bool:
    return commands[0][:2] == ["FCALL", "holdfast_load_v2"]


class Halting(Through):
    """Waits before the second portion, until it is told to go on."""

    def __init__(self, link: RedisLink) -> None:
        super().__init__(link)
        self.loads, self.halted, self.go_on = 0, asyncio.Event(), asyncio.Event()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        if is_load(commands):
            self.loads += 1
            if self.loads % 2 == 0:
                self.halted.set()
                await self.go_on.wait()
        return await super().call(key, *commands)


async def test_a_rebuild_that_goes_on_is_not_stuck_and_one_that_does_not_is(
    redis_world: RedisWorld, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(redis_world)
    before = what_redis_has(valkey_server)
    monkeypatch.setattr(rebuild, "PORTION", 3)
    monkeypatch.setattr(reconcile, "STUCK_AFTER_S", 0.0)
    link = Halting(redis_world.link)
    slow = Rebuilder(redis_world.clock, over(link), redis_world.drainer)
    at = await redis_world.position(SKU)
    assert at is not None
    rebuilding = asyncio.create_task(slow.rebuild(SKU, at, "test"))
    # Through holds, owners and keys.
    for _ in range(20):
        await link.halted.wait()
        link.halted.clear()
        # It is further than at the look before, whatever time has passed.
        assert (await redis_world.reconciler.pass_once())[SKU].finding is None
        link.go_on.set()
        link.go_on = asyncio.Event()
    await link.halted.wait()
    await redis_world.reconciler.pass_once()
    assert (await redis_world.reconciler.pass_once())[SKU].finding == "stuck"
    link.go_on.set()
    with pytest.raises(Exception, match="somebody else rebuilds it"):
        await rebuilding
    # Of what the first had loaded nothing is left, nor is anything counted twice.
    assert what_redis_has(valkey_server) == before
    await check_books(redis_world)
