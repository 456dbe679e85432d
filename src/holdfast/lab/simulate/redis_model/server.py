"""The Redis of a run: the model on its own clock, each process's link to it, and the data loss it may suffer."""

from collections.abc import Callable, Iterator
from random import Random
from sqlite3 import Connection
from typing import Any

from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import POOL_KEYS, Keys, decode_entry
from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.gate.redis.link.replies import executed
from holdfast.lab.simulate.channel import Channel, NoAnswer, NotReached
from holdfast.lab.simulate.determinism import EPOCH_S
from holdfast.lab.simulate.faults import Fault, Kind
from holdfast.lab.simulate.invariants import Violation
from holdfast.lab.simulate.loop import SimulatedLoop
from holdfast.lab.simulate.redis_model.model import RedisModel, Snapshot
from holdfast.lab.simulate.scenario import SKU_ID
from holdfast.runtime.store_health import StoreHealth

KEYS = Keys(SKU_ID)
TIMEOUT_S = 2.0
# The first of a pool's keys: the pool itself and its holds.
OF_HOLDS = 2
_REFUSALS = (
    ErrorReply("OOM", "command not allowed when used memory > 'maxmemory'."),
    ErrorReply("MISCONF", "Errors writing to the AOF file"),
    ErrorReply("READONLY", "You can't write against a read only replica."),
)
_BATCH = "holdfast_apply_v2"
_COUNTS = (b"total", b"held", b"sold")


class RedisServer:
    def __init__(self, loop: SimulatedLoop, rng: Random) -> None:
        self._loop, self._rng = loop, rng
        self.model = RedisModel(self._now_us)
        self.clock_step_ms = 0
        self.on_batch: Callable[[], None] = lambda: None
        self._copy: Snapshot | None = None

    def _now_us(self) -> int:
        return round((EPOCH_S + self._loop.now_s) * 1_000_000) + self.clock_step_ms * 1000

    def execute(self, commands: tuple[Command, ...], fault: Fault | None) -> list[Any]:
        if fault is not None and fault.kind is Kind.REFUSED:
            self.model.refusing_writes = self._rng.choice(_REFUSALS)
        try:
            return [self.model.execute(command) for command in commands]
        finally:
            self.model.refusing_writes = None
            if _name(commands) == _BATCH:
                self.on_batch()

    # --- faults

    def keep_copy(self) -> None:
        self._copy = self.model.snapshot()

    def suffer(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.KEY_LOST:
                self.model.execute(["DEL", KEYS.prefix + POOL_KEYS[int(fault.by)]])
            case Kind.FLUSHED:
                self.model.execute(["FLUSHALL"])
            case Kind.LIBRARY_LOST:
                self.model.execute(["FUNCTION", "FLUSH"])
            case Kind.RESTORED:
                self.model.restart(self._copy)
            case Kind.RESTARTED:
                self.model.restart(self.model.snapshot())

    # --- contents

    def _fields(self, *names: bytes) -> list[int | None]:
        found = self.model.execute(["HMGET", KEYS.pool, *names])
        return [None if value is None else int(value) for value in found]

    def holds(self) -> set[str]:
        """The reservations that are held."""
        fields = self.model.contents().get(KEYS.holds.encode(), {})
        assert isinstance(fields, dict)
        return {name.decode() for name in fields if name.startswith(b"rsv_")}

    def undrained(self, raw: Connection) -> set[tuple[str, int, int, int]]:
        """Reservations in journal entries that the ledger has not read, each with its entry."""
        position = raw.execute("SELECT epoch, journal_seq FROM pools").fetchone()
        found = self.model.execute(["XRANGE", KEYS.journal, "-", "+"])
        entries = [decode_entry(SKU_ID, entry_id, payload) for entry_id, (_, payload) in found]
        return {
            (each.reservation_id, entry.epoch, entry.seq, entry.now)
            for entry in entries
            if position is None or (entry.epoch, entry.seq) > position
            for each in (*entry.changes.created, *entry.changes.moved)
        }

    def check_stock(self) -> Iterator[Violation]:
        """I1, by the counters in Redis."""
        total, held, sold = self._fields(*_COUNTS)
        if total is not None and (held or 0) + (sold or 0) > total:
            yield Violation("I1", f"Redis has {total} units, and {held} are held and {sold} sold")

    def unfinished(self, raw: Connection) -> list[tuple[str, str, str]]:
        """The pool, if the ledger has not read its whole journal, or if it is not open, or if the counters differ."""
        row = raw.execute("SELECT epoch, journal_seq, total, held, sold FROM pools").fetchone()
        [state] = self.model.execute(["HMGET", KEYS.pool, "state"])
        here = tuple(self._fields(b"epoch", b"seq", *_COUNTS))
        if row[0] <= 0 or (here == row and state is not None and state.startswith(b"open")):
            return []
        return [("pool", SKU_ID, f"{state} {here} in Redis, and {row} in the ledger")]


class SimulatedLink:
    """One process's link to Redis."""

    def __init__(self, server: RedisServer, batches: Channel, others: Channel) -> None:
        self._server, self._batches, self._others = server, batches, others

    async def call(self, _key: str, *commands: Command) -> list[Any]:
        what = _name(commands)
        channel = self._batches if what == _BATCH else self._others
        try:
            replies = await channel.call(what, lambda fault: self._server.execute(commands, fault), TIMEOUT_S)
        except NotReached as exc:
            raise Unavailable(str(exc), Cause.STORE_UNREACHABLE) from exc
        except NoAnswer as exc:
            raise OutcomeUnknown(str(exc)) from exc
        return executed(commands, replies)

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return [await self.call("", *commands)]

    async def close(self) -> None:
        """Nothing to close."""

    def client(self) -> RedisClient:
        return RedisClient(self, health=StoreHealth("redis", lambda: self.call_everywhere(["PING"])))


def _name(commands: tuple[Command, ...]) -> str:
    first = commands[0]
    return str(first[1] if first[0] == "FCALL" else first[0])
