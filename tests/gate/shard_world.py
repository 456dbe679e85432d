"""A pool over four shards, by a clock that the test sets, and the laws that hold over all of them."""

from holdfast.domain.command import Command, Move, Reserve, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, new_reservation_id
from holdfast.domain.shards import shard_names
from holdfast.ledger.splits import sums
from holdfast.settlement.shard_keeper import LEFT_AFTER_MS
from redis_world import RedisWorld
from worlds import MINUTE, SKU

SHARDS = 4
NAMES = shard_names(SKU, SHARDS)


class ShardWorld:
    def __init__(self, world: RedisWorld) -> None:
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

    async def on_its_way(self) -> int:
        return (await self.world.database.read(sums))[SKU].on_its_way

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
            books = await self.world.books(name)
            books.check()
            assert (await self.world.gate_pool(name)).pool == books.pool
        of_sku = (await self.world.database.read(sums))[SKU]
        assert of_sku.adds_up, of_sku
        assert of_sku.on_its_way == 0
        assert total in (None, of_sku.total)
        pools = await self.shards()
        assert held in (None, sum(pool.held for pool in pools))
        assert sold in (None, sum(pool.sold for pool in pools))
        reports = await self.world.reconciler.pass_once(thorough=True)
        assert {name: reports[name].finding for name in (SKU, *NAMES)} == dict.fromkeys((SKU, *NAMES))
