"""A pool over four shards, by a clock that the test sets, and the laws that hold over all of them."""

from holdfast.domain.stock.command import Command, Move, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, new_reservation_id
from holdfast.domain.stock.shards import shard_names
from holdfast.gate.redis.shards.audit import LEFT_AFTER_MS
from holdfast.ledger.stock.splits import sums_of_splits
from holdfast.testing.states import MINUTE, SKU
from redis_setup import RedisSetup

SHARDS = 4
NAMES = shard_names(SKU, SHARDS)


class ShardWorld:
    def __init__(self, world: RedisSetup) -> None:
        self.world = world
        self.gate = world.open_sharded_gate()

    def command(
        self,
        owner_id: str,
        quantity: int = 1,
        *,
        at_least: int | None = None,
        key: str | None = None,
        ttl_ms: int = MINUTE,
    ) -> Reserve:
        least = quantity if at_least is None else at_least
        return Reserve(new_reservation_id(SKU, owner_id), owner_id, quantity, least, ttl_ms, key)

    async def apply(self, command: Command) -> Verdict:
        [verdict] = await self.gate.apply(SKU, [command])
        return verdict

    async def reserve(
        self, owner_id: str, quantity: int = 1, *, at_least: int | None = None, ttl_ms: int = MINUTE
    ) -> Verdict:
        return await self.apply(self.command(owner_id, quantity, at_least=at_least, ttl_ms=ttl_ms))

    async def hold(self, owner_id: str, quantity: int = 1) -> Reservation:
        verdict = await self.reserve(owner_id, quantity)
        assert verdict.reservation is not None, verdict
        return verdict.reservation

    async def sell(self, reservation: Reservation) -> None:
        verdict = await self.apply(Move(Transition.CONFIRM, reservation.reservation_id))
        assert verdict.outcome is Outcome.MOVED

    async def shards(self) -> list[Pool]:
        return [(await self.world.gate_pool(name)).pool for name in NAMES]

    async def in_transfer(self) -> int:
        return (await self.world.database.read(sums_of_splits))[SKU].in_transfer

    async def reconcile(self) -> None:
        """The background work goes on for a while, and as often as it takes to be sure."""
        for _ in range(3):
            for name in NAMES:
                await self.world.drain(name)
            self.world.clock.advance(LEFT_AFTER_MS + 1)
            await self.world.reconciler.pass_once()

    async def check(self, *, total: int | None = None, held: int | None = None, sold: int | None = None) -> None:
        """Every shard is right by itself and beside the ledger, and together they have what there is, now."""
        for name in NAMES:
            snapshot = await self.world.snapshot(name)
            snapshot.check()
            assert (await self.world.gate_pool(name)).pool == snapshot.pool
        of_sku = (await self.world.database.read(sums_of_splits))[SKU]
        assert of_sku.adds_up, of_sku
        assert of_sku.in_transfer == 0
        assert total in (None, of_sku.total)
        pools = await self.shards()
        assert held in (None, sum(pool.held for pool in pools))
        assert sold in (None, sum(pool.sold for pool in pools))
        reports = await self.world.reconciler.pass_once(thorough=True)
        assert {name: reports[name].finding for name in (SKU, *NAMES)} == dict.fromkeys((SKU, *NAMES))
