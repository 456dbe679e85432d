"""A pool is rebuilt in portions, however much it has; and whoever is at it is left alone."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from redis_tampering import KEYS, Through, check_books, client, over

from holdfast.domain.command import Command as DomainCommand
from holdfast.domain.command import Move, Provision, Transition
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Rules
from holdfast.gate.encoding import decode
from holdfast.gate.link.port import Command, RedisLink
from holdfast.ledger import gate_state
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


async def test_a_pool_that_takes_many_portions_is_rebuilt_as_it_was(
    redis_world: RedisWorld, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(redis_world)
    before = what_redis_has(valkey_server)
    assert [len(part) for part in before.values()] == [2 * OWNERS, OWNERS, OWNERS, 4 * OWNERS]
    # Portions that end within an owner, and with the last row there is.
    monkeypatch.setattr(gate_state, "PORTION", 4)
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
    assert (len(holds), len(owners), len(keys)) == (2 * OWNERS, OWNERS, 4 * OWNERS)
    ids = [hold.reservation_id for hold in holds]
    assert all(one < other for one, other in pairwise(sorted(ids)))
    assert {(o.live_units, o.let_go, len(o.active)) for o in owners} == {(3, 1, 1)}


class Halting(Through):
    """Waits before the second portion, until it is told to go on."""

    def __init__(self, link: RedisLink) -> None:
        super().__init__(link)
        self.loads, self.halted, self.go_on = 0, asyncio.Event(), asyncio.Event()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        if commands[0][:2] == ["FCALL", "holdfast_load_v1"]:
            self.loads += 1
            if self.loads % 2 == 0:
                self.halted.set()
                await self.go_on.wait()
        return await super().call(key, *commands)


async def test_a_rebuild_that_goes_on_is_not_stuck_and_one_that_does_not_is(
    redis_world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(redis_world)
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
    await check_books(redis_world)
