"""The gate in Redis or Valkey: a batch is one function call, and on disk when its reply is sent.

The function decides, takes the stock and writes the journal in one step (`lua/`). Every call names the epoch of the
pool and the highest sequence this process has seen of it. A Redis that has lost data (a stale snapshot, a truncated
file, a lagging replica, a flush) cannot match both; it changes nothing and reports that. The pool is then `not_ready`
and is rebuilt from the ledger.

The ledger has the final say. Before a confirm returns, the ledger claims its units, provided that sold units stay
within the total. If Redis grants a confirm and the ledger does not, the result is `not_ready`, and the pool is rebuilt.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

import structlog
from sqlalchemy import Connection

from holdfast.domain.stock.command import Command, Extend, Move, Provision, Reserve, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.errors import Busy, EngineError
from holdfast.gate.redis.callers import Callers
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import JOURNAL_MAX, Keys, batch_call, decode_verdicts
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position, batch_queries
from holdfast.ledger.stock.journal import Journal, find_reservations, pool_exists, position
from holdfast.runtime import metrics

log = structlog.get_logger()

NOT_READY = Verdict(Outcome.NOT_READY)


class RedisGate:
    def __init__(
        self,
        client: RedisClient,
        database: Database,
        rebuilder: Rebuilder,
        report_inconsistency: Callable[[str, str], None],
        *,
        replicas_min: int = 0,
        journal_max: int = JOURNAL_MAX,
    ) -> None:
        """`report_inconsistency(sku_id, reason)` names a pool that may have to be rebuilt. While the ledger lacks
        `journal_max` entries of a journal, nobody can reserve."""
        self._client = client
        self._database = database
        self._rebuilder = rebuilder
        self._report_inconsistency = report_inconsistency
        self._replicas_min = replicas_min
        self._journal_max = journal_max
        self._callers = Callers()
        self._journal = Journal(batch_queries(database.dialect_name))
        self._seen: dict[str, Position] = {}

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        # Redis could continue to sell, but the sales could not be stored.
        self._database.guard.ensure_open()
        started = perf_counter()
        # A pool may have left Redis and returned with an old copy. Commands that open it or add to it must not go
        # there.
        is_changed = any(isinstance(command, Provision | Restock) for command in commands)
        seen = await self._learn(sku_id) if is_changed else self._seen.get(sku_id) or await self._learn(sku_id)
        if seen is None:
            verdicts = await self._decide_unknown(sku_id, commands)
        else:
            verdicts = await self._decide(sku_id, seen, commands)
        metrics.COMMIT_SECONDS.observe(perf_counter() - started)
        return verdicts

    def seen(self, sku_id: str) -> Position:
        """The highest position in the pool's journal that this process has seen."""
        return self._seen.get(sku_id) or Position()

    async def _learn(self, sku_id: str) -> Position | None:
        """The ledger's position is a lower bound for what this process has seen."""
        at = await self._database.read(lambda c: position(c, sku_id))
        if at is None:
            self._seen.pop(sku_id, None)
            return None
        seen = self._seen.get(sku_id)
        if seen is None or seen.epoch != at.epoch or seen.seq < at.seq:
            self._seen[sku_id] = at
        return self._seen[sku_id]

    # --- through the ledger

    async def _decide_unknown(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """A pool that is not in Redis: it does not exist, or was created before Redis was the gate."""
        if not any(isinstance(c, Provision) for c in commands) and not await self._database.read(
            lambda c: pool_exists(c, sku_id)
        ):
            return [Verdict(Outcome.POOL_NOT_FOUND)] * len(commands)
        return await self._decide_in_ledger(sku_id, Position(), commands)

    async def _decide_in_ledger(self, sku_id: str, at: Position, commands: Sequence[Command]) -> list[Verdict]:
        self._seen.pop(sku_id, None)
        verdicts = await self._rebuilder.decide_in_ledger(sku_id, at, commands)
        if verdicts is not None:
            return verdicts
        # Another process was faster; the pool is in Redis, or soon will be.
        seen = await self._learn(sku_id)
        return await self._decide(sku_id, seen, commands) if seen else [NOT_READY] * len(commands)

    # --- in Redis

    async def _decide(self, sku_id: str, seen: Position, commands: Sequence[Command]) -> list[Verdict]:
        reply = await self._call(sku_id, seen, commands)
        if reply[0] == "epoch" and await self._catch_up(sku_id, reply[1]):
            seen = self._seen[sku_id]
            reply = await self._call(sku_id, seen, commands)
        match reply:
            case ["decided", now, seq, answers]:
                at = Position(seen.epoch, seq)
                self._remember(sku_id, at)
                return await self._check_with_ledger(sku_id, at, commands, answers, now)
            case ["counting"]:
                return await self._decide_in_ledger(sku_id, seen, commands)
            case ["lagging"]:
                return await self._decide_without_reserves(sku_id, commands)
            case ["missing", *_] if await self._learn(sku_id) is None:
                return await self._decide_unknown(sku_id, commands)
            case [reason, *_]:
                self._seen.pop(sku_id, None)
                self._report_inconsistency(sku_id, reason)
        return [NOT_READY] * len(commands)

    async def _decide_without_reserves(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """The ledger is too far behind for more holds. Existing holds can still end."""
        others = [command for command in commands if not isinstance(command, Reserve)]
        if not others:
            raise Busy("the ledger is too far behind the journal")
        verdicts = iter(await self.apply(sku_id, others))
        return [NOT_READY if isinstance(command, Reserve) else next(verdicts) for command in commands]

    async def _catch_up(self, sku_id: str, epoch: int) -> bool:
        """Whether the ledger agrees that this is the pool's current epoch."""
        at = await self._learn(sku_id)
        return at is not None and at.epoch == epoch

    def _remember(self, sku_id: str, at: Position) -> None:
        """Unless another batch of this process has seen a newer epoch, or an inconsistent pool, in the meantime."""
        seen = self._seen.get(sku_id)
        if seen is not None and seen.epoch == at.epoch and at.seq > seen.seq:
            self._seen[sku_id] = at

    async def _call(self, sku_id: str, seen: Position, commands: Sequence[Command]) -> Any:
        now = self._database.known_now_ms()
        with self._callers.next_call(sku_id) as call:
            batch = batch_call(Keys(sku_id), seen, commands, call, now, journal_max=self._journal_max)
            return await self._client.decide(batch, replicas_min=self._replicas_min)

    # --- checked against the ledger

    async def _check_with_ledger(
        self, sku_id: str, at: Position, commands: Sequence[Command], answers: Sequence[Sequence[Any]], now: int
    ) -> list[Verdict]:
        """Redis has decided the batch. If the ledger is unavailable, only the commands that need it are not ready."""
        verdicts = decode_verdicts(sku_id, commands, answers, now)
        if all(type(command) is Reserve for command in commands):
            return verdicts
        await self._look_up_forgotten(sku_id, commands, verdicts, now)
        await self._claim(sku_id, at, commands, verdicts, now)
        return verdicts

    async def _look_up_forgotten(
        self, sku_id: str, commands: Sequence[Command], verdicts: list[Verdict], now: int
    ) -> None:
        """Redis drops an ended reservation once the ledger has it; the ledger then knows how it ended."""
        unknown = {
            index: command
            for index, command in enumerate(commands)
            if verdicts[index].outcome is Outcome.NOT_FOUND and isinstance(command, Move | Extend)
        }
        if not unknown:
            return
        ids = [command.reservation_id for command in unknown.values()]
        try:
            found = await self._database.read(lambda c: find_reservations(c, sku_id, ids))
        except EngineError as exc:
            self._mark_not_ready(sku_id, verdicts, unknown, exc)
            return
        for index, command in unknown.items():
            reservation = found.get(command.reservation_id)
            if reservation is not None and command.owner_id in (None, reservation.owner_id):
                verdicts[index] = self._verdict_of_ended(sku_id, command, reservation, now)

    def _verdict_of_ended(self, sku_id: str, command: Command, reservation: Reservation, now: int) -> Verdict:
        if reservation.status in (Status.ACTIVE, Status.SETTLING):
            self._report_inconsistency(sku_id, "hold_lost")
            return NOT_READY
        # An ended reservation cannot change, so the rest of the pool does not matter.
        state = State(sku_id, Pool(sku_id, 0), {reservation.reservation_id: reservation})
        return decide(state, [command], now).verdicts[0]

    def _mark_not_ready(self, sku_id: str, verdicts: list[Verdict], indexes: Iterable[int], exc: EngineError) -> None:
        log.warning("ledger_unavailable", sku_id=sku_id, error=str(exc))
        for index in indexes:
            verdicts[index] = NOT_READY

    async def _claim(
        self, sku_id: str, at: Position, commands: Sequence[Command], verdicts: list[Verdict], now: int
    ) -> None:
        """A confirm returns only after the ledger has claimed its units."""
        sold = {
            index: verdict.reservation
            for index, (command, verdict) in enumerate(zip(commands, verdicts, strict=True))
            if isinstance(command, Move)
            and command.transition is Transition.CONFIRM
            and not command.is_claimed
            and verdict.outcome in (Outcome.MOVED, Outcome.ALREADY)
            and verdict.reservation is not None
        }
        if not sold:
            return
        wanted = list(sold.values())
        try:
            granted = await self._claim_sold(sku_id, at, wanted, now)
            # The ledger refuses claims of an epoch that has ended; the gate is consistent then.
            is_inconsistent = granted < len(wanted) and await self._catch_up(sku_id, at.epoch)
        except EngineError as exc:
            self._mark_not_ready(sku_id, verdicts, sold, exc)
            return
        for index in list(sold)[granted:]:
            verdicts[index] = NOT_READY
        if is_inconsistent:
            self._report_inconsistency(sku_id, "claim_refused")

    async def _claim_sold(self, sku_id: str, at: Position, wanted: list[Reservation], now: int) -> int:
        def claim(connection: Connection) -> int:
            return self._journal.claim(connection, sku_id, at.epoch, wanted, now)

        granted = await self._database.write(claim)
        if granted < len(wanted):
            # The ledger may not have read yet that units were added. It will have when it reaches this batch.
            await self._rebuilder.drain_until(sku_id, at)
            granted = await self._database.write(claim)
        return granted
