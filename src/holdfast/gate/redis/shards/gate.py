"""A gate for pools that are split into shards, in front of the gate that decides each shard.

A command goes to the shard of its owner, which decides it like any pool. A shard's refusal for lack of stock is not
final: if all shards together could serve the buyer, units are transferred to this shard and the command is decided
again. The final result covers all shards: sold out only if every unit is sold, otherwise held, because units in
transfer between two shards are not gone. A process runs one transfer at a time per SKU, so that its shards do not keep
taking units from one another.

Pools that are not split pass through.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic

import structlog
from msgspec.structs import replace

from holdfast.domain.stock.command import Command, Expire, Provision, Reserve, Restock, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.shards import is_shard, shard_names, whole_of
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.gate.redis.gate import NOT_READY, RedisGate
from holdfast.gate.redis.shards.stock import ShardStock
from holdfast.gate.redis.shards.transfers import ShardTransfers
from holdfast.gate.redis.splits import Splits, pool_for
from holdfast.gate.redis.views import RedisViews, WholePool

log = structlog.get_logger()

_LACKS_STOCK = frozenset({Outcome.INSUFFICIENT, Outcome.ALL_HELD, Outcome.SOLD_OUT})
# Another command may take the units that were to be transferred, so it is retried. A command may queue longer than
# this.
TRANSFER_TIMEOUT_S = 1.0
LONGEST_PAUSE_S = 0.02
# About what a transfer takes.
TRANSFER_MS = 50


class ShardedGate:
    def __init__(
        self, gate: RedisGate, splits: Splits, views: RedisViews, transfers: ShardTransfers, stock: ShardStock
    ) -> None:
        self._gate = gate
        self._splits = splits
        self._views = views
        self._transfers = transfers
        self._stock = stock
        self._transferring: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        if is_shard(sku_id):
            return await self._apply_to_shard(sku_id, commands)
        shards = await self._splits.of(sku_id)
        if shards < 2 and Provision not in set(map(type, commands)):
            return await self._gate.apply(sku_id, commands)
        provisions = [c for c in commands if isinstance(c, Provision)]
        if shards == 0 and provisions:
            shards = await self._splits.choose(sku_id, provisions[0].shards or 1, provisions[0].total or 0)
        if shards > 1:
            return await self._apply_in_turn(sku_id, shards, commands)
        return await self._apply_to_whole(sku_id, commands)

    async def _apply_to_whole(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """A pool that is not split stays so; the other commands in the batch are decided."""
        verdicts = iter(await self._gate.apply(sku_id, [c for c in commands if not _asks_for_shards(c)]))
        return [Verdict(Outcome.ILLEGAL, shards=1) if _asks_for_shards(c) else next(verdicts) for c in commands]

    async def _apply_in_turn(self, sku_id: str, shards: int, commands: Sequence[Command]) -> list[Verdict]:
        """A command about the whole stock is decided after the commands before it and before those after it."""
        verdicts: list[Verdict] = []
        for_shards: list[Command] = []
        for command in commands:
            if isinstance(command, Provision | Restock | Expire):
                verdicts += await self._apply_apart(sku_id, shards, for_shards)
                verdicts.append(await self._change_stock(sku_id, shards, command))
                for_shards = []
            else:
                for_shards.append(command)
        return verdicts + await self._apply_apart(sku_id, shards, for_shards)

    async def _change_stock(self, sku_id: str, shards: int, command: Provision | Restock | Expire) -> Verdict:
        match command:
            case Provision():
                return await self._stock.provision(sku_id, shards, command)
            case Restock():
                return await self._stock.restock(sku_id, shards, command.units)
            case Expire():
                answers = await asyncio.gather(*[self._gate.apply(n, [command]) for n in shard_names(sku_id, shards)])
                return Verdict(Outcome.MOVED, units=sum(verdict.units for [verdict] in answers))

    async def _apply_apart(self, sku_id: str, shards: int, commands: Sequence[Command]) -> list[Verdict]:
        """Each shard decides its part, concurrently."""
        parts: dict[str, list[int]] = defaultdict(list)
        for index, command in enumerate(commands):
            parts[pool_for(sku_id, shards, command) or sku_id].append(index)
        calls = [self._apply_to_shard(name, [commands[i] for i in part]) for name, part in parts.items()]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        verdicts = [NOT_READY] * len(commands)
        for part, answer in zip(parts.values(), answers, strict=True):
            if isinstance(answer, OutcomeUnknown) or not isinstance(answer, EngineError | list):
                raise answer
            # A shard that is unavailable has decided nothing.
            for index, verdict in zip(part, answer if isinstance(answer, list) else (), strict=False):
                verdicts[index] = verdict
        return verdicts

    # --- one shard

    async def _apply_to_shard(self, name: str, commands: Sequence[Command]) -> list[Verdict]:
        if any(isinstance(c, Reserve) and c.min_quantity < c.quantity for c in commands):
            await self._collect_first(name, commands)
        verdicts = await self._gate.apply(name, commands)
        short = _short(commands, verdicts, range(len(commands)))
        if short:
            await self._serve_from_all(name, commands, verdicts, short)
        return [_outward(whole_of(name), verdict) for verdict in verdicts]

    async def _collect_first(self, name: str, commands: Sequence[Command]) -> None:
        """An attempt that accepts fewer units gets as many as all shards have."""
        with suppress(EngineError):
            takes = await self._fetch(name, commands)
            if takes:
                await self._gate.apply(name, takes)

    async def _serve_from_all(
        self, name: str, commands: Sequence[Command], verdicts: list[Verdict], short: list[int]
    ) -> None:
        """Turns the refusal of one shard into a grant, or into a refusal by all of them."""
        until = monotonic() + TRANSFER_TIMEOUT_S
        while monotonic() < until:
            try:
                whole = await self._views.whole(whole_of(name))
                short = await self._refuse_for_all(name, whole, commands, verdicts, short)
                takes = await self._fetch(name, [commands[i] for i in short], whole) if short else []
            except OutcomeUnknown:
                raise
            except EngineError as exc:
                # Nothing was decided: it is unknown whether other shards have units.
                log.warning("shards_unavailable", sku_id=name, error=str(exc))
                for index in short:
                    verdicts[index] = NOT_READY
                return
            await self._decide_again(name, takes, commands, verdicts, short)
            short = _short(commands, verdicts, short)
            if not short:
                return
            await asyncio.sleep(random.uniform(0, LONGEST_PAUSE_S))
        for index in short:
            verdicts[index] = Verdict(Outcome.ALL_HELD, available=0, retry_after_ms=TRANSFER_MS)

    async def _refuse_for_all(
        self,
        name: str,
        whole: WholePool,
        commands: Sequence[Command],
        verdicts: list[Verdict],
        short: Sequence[int],
    ) -> list[int]:
        """Refuses those that all shards together cannot serve; returns the others."""
        reachable = whole.pool.available + whole.in_transfer
        servable = [i for i in short if _least(commands[i]) <= reachable]
        refused = [i for i in short if i not in servable]
        # An attempt with the same key may have taken the last units since this one was decided.
        await self._decide_again(name, [], commands, verdicts, [i for i in refused if _has_key(commands[i])])
        for index in _short(commands, verdicts, refused):
            verdicts[index] = refusal(whole)
        return servable

    async def _fetch(self, name: str, commands: Sequence[Command], seen: WholePool | None = None) -> list[Command]:
        wanted = sum(command.quantity for command in commands if isinstance(command, Reserve))
        transferring = self._transferring[whole_of(name)]
        is_fresh = not transferring.locked()
        async with transferring:
            whole = seen if seen is not None and is_fresh else await self._views.whole(whole_of(name))
            if whole.in_transfer:
                # Its process may have died. If it is still at work, delivering twice does no harm.
                await self._transfers.deliver(whole.shards)
                whole = await self._views.whole(whole_of(name))
            return [*await self._transfers.fetch(name, wanted, whole.shards)]

    async def _decide_again(
        self,
        name: str,
        first: Sequence[Command],
        commands: Sequence[Command],
        verdicts: list[Verdict],
        indexes: Sequence[int],
    ) -> None:
        if not indexes:
            return
        answers = await self._gate.apply(name, [*first, *[commands[i] for i in indexes]])
        for index, verdict in zip(indexes, answers[len(first) :], strict=True):
            verdicts[index] = verdict


def _short(commands: Sequence[Command], verdicts: Sequence[Verdict], indexes: Iterable[int]) -> list[int]:
    """The commands refused for lack of stock."""
    return [i for i in indexes if isinstance(commands[i], Reserve) and verdicts[i].outcome in _LACKS_STOCK]


def _has_key(command: Command) -> bool:
    return isinstance(command, Reserve) and command.key is not None


def _asks_for_shards(command: Command) -> bool:
    return isinstance(command, Provision) and command.shards not in (None, 1)


def _least(command: Command) -> int:
    assert isinstance(command, Reserve)
    return command.min_quantity


def refusal(whole: WholePool) -> Verdict:
    """The result for an attempt that all shards together cannot serve."""
    pool = whole.pool
    if pool.available > 0:
        return Verdict(Outcome.INSUFFICIENT, available=pool.available)
    if pool.held == 0:
        return Verdict(Outcome.SOLD_OUT, available=0)
    returns_at = whole.next_return_at
    wait = TRANSFER_MS if returns_at is None else returns_at - whole.now
    return Verdict(Outcome.ALL_HELD, available=0, next_return_at=returns_at, retry_after_ms=wait)


def _outward(sku_id: str, verdict: Verdict) -> Verdict:
    """Hides shards from callers."""
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        # The SKU exists, so the shard is being created.
        return NOT_READY
    if verdict.reservation is None:
        return verdict
    return replace(verdict, reservation=replace(verdict.reservation, sku_id=sku_id))
