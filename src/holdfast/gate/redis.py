"""The gate in Redis or Valkey: a batch is one call of a function, and on disk when it is answered.

The function decides, takes the stock and writes the journal in one step (`gate/lua/`). Every call names the epoch of
the pool and the sequence this process has seen of it; a Redis that has lost something (a stale snapshot, a cut file, a
replica that was behind, a flush) cannot meet both, changes nothing, and says so. Then the pool is `not_ready` and is
rebuilt from the ledger.

The ledger is the judge. Before a confirm is answered, the ledger lets the units go, on condition that what is sold
stays within the total; a confirm that Redis granted and the ledger does not is answered `not_ready`, and the pool is
rebuilt.

A call whose answer was lost is sent once more under the same id: it either finds the answer of the first, or is decided
now. If that fails as well, the outcome is unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

import structlog
from msgspec import Struct
from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast import metrics
from holdfast.domain.command import Command, Extend, Move, Provision, Reserve, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import MAX_TOTAL_UNITS, Pool
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.rulebook import decide
from holdfast.domain.state import State
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.gate.encoding import Keys, decode, decode_verdicts, encode_batch
from holdfast.gate.functions import Functions
from holdfast.ledger.batch import BatchQueries, Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import Journal, find_reservations, pool_exists, position
from holdfast.settlement.rebuild import REDIS_KEYS_KEPT_MS, Rebuilder

log = structlog.get_logger()

# The pool's own keys and the key of the call come before the idempotency keys.
_FIRST_KEY = 7
# Long enough for a call to be repeated after the longest timeout; what it holds is an answer of some bytes per command.
CALL_KEPT_MS = 60_000
NOT_READY = Verdict(Outcome.NOT_READY)


class Call(Struct, frozen=True):
    """A batch as it is sent, under an id of its own."""

    function: str
    keys: list[str]
    arguments: list[str | bytes | int]


def call_of(keys: Keys, seen: Position, commands: Sequence[Command]) -> Call:
    batch = encode_batch(keys, commands, _FIRST_KEY)
    names = [keys.pool, keys.holds, keys.deadlines, keys.owners, keys.journal, keys.call(uuid7().hex), *batch.keys]
    limits = [MAX_TOTAL_UNITS, REDIS_KEYS_KEPT_MS, CALL_KEPT_MS]
    return Call("holdfast_apply_v1", names, [seen.epoch, seen.seq, *limits, batch.commands])


class RedisGate:
    def __init__(
        self,
        functions: Functions,
        database: Database,
        rebuilder: Rebuilder,
        suspect: Callable[[str, str], None],
        *,
        replicas_min: int = 0,
    ) -> None:
        """`suspect` is told which pool may have to be rebuilt, and why."""
        self._functions = functions
        self._database = database
        self._rebuilder = rebuilder
        self._suspect = suspect
        self._replicas_min = replicas_min
        self._journal = Journal(BatchQueries(database.dialect_name))
        self._seen: dict[str, Position] = {}

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        started = perf_counter()
        seen = self._seen.get(sku_id) or await self._learn(sku_id)
        if seen is None:
            verdicts = await self._decide_unknown(sku_id, commands)
        else:
            verdicts = await self._decide(sku_id, seen, commands)
        metrics.COMMIT_SECONDS.observe(perf_counter() - started)
        return verdicts

    def seen(self, sku_id: str) -> Position:
        """How far this process has seen the journal of a pool."""
        return self._seen.get(sku_id) or Position()

    async def _learn(self, sku_id: str) -> Position | None:
        """What the ledger knows of the pool is the least this process may have seen of it."""
        at = await self._database.read(lambda c: position(c, sku_id))
        if at is not None:
            self._seen[sku_id] = at
        return at

    # --- through the ledger

    async def _decide_unknown(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """A pool that is not decided in Redis yet: it does not exist, or was made before Redis was the gate."""
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
        # Somebody else was faster, and the pool is, or soon will be, in Redis.
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
                return await self._judge(sku_id, at, commands, answers, now)
            case ["counting"]:
                return await self._decide_in_ledger(sku_id, seen, commands)
            case [why, *_]:
                self._seen.pop(sku_id, None)
                self._suspect(sku_id, why)
        return [NOT_READY] * len(commands)

    async def _catch_up(self, sku_id: str, epoch: int) -> bool:
        """Whether the ledger agrees that the pool is under this epoch now."""
        at = await self._learn(sku_id)
        return at is not None and at.epoch == epoch

    def _remember(self, sku_id: str, at: Position) -> None:
        """Unless another batch of this process has met a newer epoch meanwhile, or has found the pool wanting."""
        seen = self._seen.get(sku_id)
        if seen is not None and seen.epoch == at.epoch and at.seq > seen.seq:
            self._seen[sku_id] = at

    async def _call(self, sku_id: str, seen: Position, commands: Sequence[Command]) -> Any:
        call = call_of(Keys(sku_id), seen, commands)
        try:
            return await self._send(call)
        except OutcomeUnknown as exc:
            log.warning("call_repeated", key=call.keys[0], error=str(exc))
            return await self._send_again(call)

    async def _send(self, call: Call) -> Any:
        wait = self._replicas_min
        return decode(await self._functions.call(call.function, call.keys, call.arguments, replicas_min=wait))

    async def _send_again(self, call: Call) -> Any:
        """Only an answer settles it: whoever refuses now may have forgotten, or was not the one who was asked first."""
        try:
            reply = await self._send(call)
        except EngineError as exc:
            raise OutcomeUnknown(f"nor is there an answer to its repeat: {exc}") from exc
        if reply[0] != "decided":
            raise OutcomeUnknown(f"its repeat came too late: {reply[0]}")
        return reply

    # --- the ledger as judge

    async def _judge(
        self, sku_id: str, at: Position, commands: Sequence[Command], answers: Sequence[Sequence[Any]], now: int
    ) -> list[Verdict]:
        """Redis has decided the batch: if the ledger cannot be asked now, only those who need its word go without."""
        verdicts = decode_verdicts(sku_id, commands, answers, now)
        if all(type(command) is Reserve for command in commands):
            return verdicts
        await self._look_up_forgotten(sku_id, commands, verdicts, now)
        await self._claim(sku_id, at, commands, verdicts, now)
        return verdicts

    async def _look_up_forgotten(
        self, sku_id: str, commands: Sequence[Command], verdicts: list[Verdict], now: int
    ) -> None:
        """Redis forgets a reservation that has ended once the ledger has it; then the ledger says how it ended."""
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
            self._go_without(sku_id, verdicts, unknown, exc)
            return
        for index, command in unknown.items():
            reservation = found.get(command.reservation_id)
            if reservation is not None and command.owner_id in (None, reservation.owner_id):
                verdicts[index] = self._verdict_of_ended(sku_id, command, reservation, now)

    def _verdict_of_ended(self, sku_id: str, command: Command, reservation: Reservation, now: int) -> Verdict:
        if reservation.status in (Status.ACTIVE, Status.SETTLING):
            self._suspect(sku_id, "hold_lost")
            return NOT_READY
        # What has ended does not move any more, so the rest of the pool does not matter.
        state = State(sku_id, Pool(sku_id, 0), {reservation.reservation_id: reservation})
        return decide(state, [command], now).verdicts[0]

    def _go_without(self, sku_id: str, verdicts: list[Verdict], indexes: Iterable[int], exc: EngineError) -> None:
        log.warning("ledger_not_asked", sku_id=sku_id, error=str(exc))
        for index in indexes:
            verdicts[index] = NOT_READY

    async def _claim(
        self, sku_id: str, at: Position, commands: Sequence[Command], verdicts: list[Verdict], now: int
    ) -> None:
        """Nobody hears that a reservation is sold before the ledger has let its units go."""
        sold = {
            index: verdict.reservation
            for index, (command, verdict) in enumerate(zip(commands, verdicts, strict=True))
            if isinstance(command, Move)
            and command.transition is Transition.CONFIRM
            and verdict.outcome in (Outcome.MOVED, Outcome.ALREADY)
            and verdict.reservation is not None
        }
        if not sold:
            return
        wanted = list(sold.values())
        try:
            granted = await self._let_go(sku_id, at, wanted, now)
            # After an epoch has ended it is no fault of the gate that the ledger takes no claims of it.
            is_at_odds = granted < len(wanted) and await self._catch_up(sku_id, at.epoch)
        except EngineError as exc:
            self._go_without(sku_id, verdicts, sold, exc)
            return
        for index in list(sold)[granted:]:
            verdicts[index] = NOT_READY
        if is_at_odds:
            self._suspect(sku_id, "claim_refused")

    async def _let_go(self, sku_id: str, at: Position, wanted: list[Reservation], now: int) -> int:
        def claim(connection: Connection) -> int:
            return self._journal.claim(connection, sku_id, at.epoch, wanted, now)

        granted = await self._database.write(claim)
        if granted < len(wanted):
            # The ledger may not have heard yet of units that were added; it has when it is where this batch was.
            await self._rebuilder.drain_until(sku_id, at)
            granted = await self._database.write(claim)
        return granted
