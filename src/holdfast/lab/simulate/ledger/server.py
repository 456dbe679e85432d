"""The ledger of a run: SQLite in memory, with the product's own tables, migrations and queries.

The server runs one transaction at a time, as the locks of a real database would. Each process calls it through a
`SimulatedDatabase`. Faults may refuse a transaction, lose the reply to its commit, or return the ledger to an earlier
copy.
"""

import sqlite3
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import StaticPool

from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.lab.simulate.channel import Channel, NoAnswer, NotReached
from holdfast.lab.simulate.determinism import EPOCH_S
from holdfast.lab.simulate.faults import Fault, Kind
from holdfast.lab.simulate.ledger.connection import QuickConnection
from holdfast.lab.simulate.loop import SimulatedLoop
from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S, T, Work
from holdfast.ledger.engine.guard import LedgerGuard
from holdfast.ledger.engine.heartbeats import last_written_time
from holdfast.ledger.upgrade import upgrade
from holdfast.runtime.engine_clock import EngineClock

_REFUSALS = (Cause.DISK_FULL, Cause.LOCK_TIMEOUT, Cause.STORE_READ_ONLY, Cause.CONNECTIONS_IN_USE)
# The most important writes have their own channels, so that faults hit them often.
_CHANNELS = {"SqlGate": "gate", "Settler": "settling", "Interpreter": "settling", "Refunder": "settling"}


@cache
def _engine() -> tuple[sqlite3.Connection, Engine]:
    """Shared by all runs of this operating-system process, so that compiled statements are cached."""
    raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=1_000)
    return raw, create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)


@cache
def _connection() -> Connection:
    """SQLAlchemy sees one endless transaction; the real BEGIN and COMMIT are sent to SQLite directly."""
    raw, engine = _engine()
    return QuickConnection(engine, raw)


@cache
def _template() -> sqlite3.Connection:
    """An empty ledger."""
    raw, engine = _engine()
    with engine.begin() as connection:
        upgrade(connection)
    return _copy_of(raw)


def _copy_of(raw: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    raw.backup(copy)
    return copy


class LedgerServer:
    def __init__(self, loop: SimulatedLoop, rng: Random) -> None:
        self._loop, self._rng = loop, rng
        template = _template()
        self.raw, _ = _engine()
        template.backup(self.raw)
        self.connection = _connection()
        self.is_read_only = False
        self.clock_step_ms = 0
        # Incremented when the ledger goes back: a connection with an older generation counts as new, and is checked
        # again.
        self.generation = 0
        self.on_commit: Callable[[], None] = lambda: None
        self._copy: sqlite3.Connection | None = None

    def now_ms(self) -> int:
        return round((EPOCH_S + self._loop.now_s) * 1000) + self.clock_step_ms

    def keep_copy(self) -> None:
        self._copy = _copy_of(self.raw)

    def go_back(self) -> None:
        if self._copy is not None:
            self._copy.backup(self.raw)
            self.generation += 1

    def heal(self) -> None:
        self.is_read_only = False

    def close(self) -> None:
        self.connection.rollback()

    def transact(self, work: Work[T], fault: Fault | None) -> T:
        before = self.raw.total_changes
        self.raw.execute("BEGIN IMMEDIATE")
        try:
            result = work(self.connection)
            has_changed = self.raw.total_changes != before
            if has_changed and (self.is_read_only or (fault is not None and fault.kind is Kind.REFUSED)):
                cause = Cause.STORE_READ_ONLY if self.is_read_only else self._rng.choice(_REFUSALS)
                raise Unavailable(f"the ledger refused to commit: {cause}", cause)
            self.raw.execute("COMMIT")
        finally:
            if self.raw.in_transaction:
                self.raw.rollback()
        if has_changed:
            self.on_commit()
        return result

    def read(self, work: Work[T]) -> T:
        self.raw.execute("BEGIN")
        try:
            return work(self.connection)
        finally:
            self.raw.rollback()


class SimulatedDatabase:
    """The `Database` of one simulated process."""

    dialect_name = "sqlite"

    def __init__(self, server: LedgerServer, channels: Mapping[str, Channel]) -> None:
        self.guard = LedgerGuard()
        self.failed_writes = 0
        self.clock = EngineClock("ledger")
        self._server, self._channels = server, channels
        self._generation = -1

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        self.guard.ensure_open()

        def carry_out(fault: Fault | None) -> T:
            self._check_connection()
            self.guard.ensure_open()
            return self._server.transact(work, fault)

        try:
            name = _name(work)
            channel = self._channels[_CHANNELS.get(name.partition(".")[0], "write")]
            return await channel.call(name, carry_out, timeout_s)
        except NotReached as exc:
            self.failed_writes += 1
            raise Unavailable(str(exc), Cause.STORE_UNREACHABLE) from exc
        except NoAnswer as exc:
            self.failed_writes += 1
            raise OutcomeUnknown(str(exc)) from exc
        except Unavailable:
            self.failed_writes += 1
            raise

    async def read(self, work: Work[T]) -> T:
        def carry_out(_fault: Fault | None) -> T:
            self._check_connection()
            return self._server.read(work)

        try:
            return await self._channels["read"].call(_name(work), carry_out, TRANSACTION_TIMEOUT_S)
        except (NotReached, NoAnswer) as exc:
            raise Unavailable(str(exc), Cause.STORE_UNREACHABLE) from exc

    lock_free_read = read

    def _check_connection(self) -> None:
        """After a failover every connection is new, and is checked before its first use."""
        if self._generation != self._server.generation and self.guard.compare is not None:
            self._server.read(self.guard.compare)
        if self.guard.finding is None:
            self._generation = self._server.generation

    def now_ms(self, connection: Connection) -> int:
        if self.clock.is_reading_due:
            reading = self._server.now_ms()
            if self.clock.now_ms() is None:
                self.clock.start(reading, last_written_time(connection))
            else:
                self.clock.correct(reading, self.clock.elapsed_ms())
        return self.clock.now_ms() or 0

    def known_now_ms(self) -> int | None:
        return self.clock.now_ms()

    def clock_step_ms(self) -> int:
        return self.clock.stepped_ms

    def keep_probe_open(self) -> None:
        """No connection is idle for long here."""

    def trouble(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing to close."""


def _name(work: Any) -> str:
    named = getattr(work, "func", work)
    return (
        getattr(named, "__qualname__", type(named).__name__).replace(".<locals>.<lambda>", "").replace("<locals>.", "")
    )
