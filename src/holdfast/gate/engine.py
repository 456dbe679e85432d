"""An engine: the gate, and everything that depends on where stock is decided."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct, field
from sqlalchemy import Connection

from holdfast.domain.stock.command import Command
from holdfast.domain.stock.reservation import Reservation
from holdfast.gate.confirmed_refusals import OwnerFeed
from holdfast.gate.lag import Lag
from holdfast.gate.locked_pools import LockedPools
from holdfast.gate.port import Gate
from holdfast.gate.reconciler import Reconciler
from holdfast.ledger.mark.mark import Acknowledged, KeptMark
from holdfast.ledger.stock.journal import Entry
from holdfast.ledger.stock.shared_reads import LookAt
from holdfast.runtime.agent import Agent

Find = Callable[[str], Awaitable[Reservation | None]]
CatchUp = Callable[[str | None], Awaitable[None]]


class GateLink(Protocol):
    """The connection to a gate outside the ledger."""

    async def call_everywhere(self, *commands: Sequence[str | bytes | int]) -> list[list[Any]]: ...


# One write on every primary of the gate. Returns for each how it failed, or None.
Beat = Callable[[], Awaitable[Sequence[BaseException | None]]]


# Gets the pool, what was stored of its journal, and when that began (nanoseconds since 1970).
JournalObserver = Callable[[str, Sequence[Entry], int], Awaitable[None]]


class JournalDrainer(Protocol):
    on_stored: JournalObserver | None

    def agent(self) -> Agent[Any]:
        """Copies the gate's journal into the ledger."""


class PoolSplits(Protocol):
    def line_of(self, sku_id: str, command: Command) -> str:
        """The queue of a command: each shard of a pool has its own."""


class Restocker(Protocol):
    """Adds units to a pool, once for each reference."""

    async def has_room(self, sku_id: str, units: int) -> bool: ...

    async def restock(self, sku_id: str, units: int, reference: str) -> None: ...

    def add(self, connection: Connection, sku_id: str, units: int, reference: str) -> bool:
        """Record it as part of a transaction. False if the pool would become too large."""

    async def deliver(self, sku_id: str) -> None:
        """Make the pool take the units that were added."""


class Evidence(Protocol):
    """What a gate outside the ledger knows about a ledger that went back. It also stores marks."""

    async def read(self) -> KeptMark | None: ...

    async def write(self, kept: KeptMark) -> None: ...

    async def holds(self) -> list[Acknowledged]: ...

    async def close_pools(self) -> None:
        """Stop all grants until the pools are rebuilt from the ledger. Pools that the ledger lost are removed."""


class Engine(Struct, frozen=True, eq=False):
    """Everything that depends on where stock is decided. The optional parts exist if the gate is not the ledger
    itself."""

    gate: Gate
    look_at: LookAt
    find: Find
    catch_up: CatchUp
    """Bring the ledger up to date with one pool, or all, before it is queried for a list."""
    reconciler: Reconciler
    drainer: JournalDrainer | None = None
    link: GateLink | None = None
    splits: PoolSplits | None = None
    restocker: Restocker | None = None
    acknowledged: Callable[[int], Sequence[Acknowledged]] = lambda _count: ()
    """The latest so many reservations that were granted or moved and that the ledger has, latest first."""
    catch_up_sales: Callable[[str], Awaitable[None]] | None = None
    """Bring the ledger up to date with the sales of one owner, before their orders are listed."""
    locked_pools: LockedPools = field(default_factory=LockedPools)
    beat: Beat | None = None
    evidence: Evidence | None = None
    journal_lag: Callable[[], Awaitable[dict[str, Lag]]] | None = None
    """By pool, what the ledger lacks of the gate's journal."""
    reload_pool: Callable[[str], Awaitable[None]] | None = None
    """Load a pool from the ledger anew, where the gate has a copy of it."""
    owner_feed: OwnerFeed | None = None
    """Where other processes may grant, too: tells who has got something."""
