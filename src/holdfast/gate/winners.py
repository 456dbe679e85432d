"""Knows, without reading the store, which owners cannot have a reservation in an empty pool.

The model. An attempt with an idempotency key at an empty pool may repeat one that was granted, and must then get the
first answer. So a pool that was found empty gets a filter with a bit for each owner of a reservation in it, including
ended ones. An owner whose bit is not set has nothing there: none of their keys can be known and no limit counts against
them, so they get the cached refusal. For an owner whose bit is set, perhaps by a collision, the store decides. The
filter has a fixed size to bound memory; with very many owners it becomes useless, but never wrong.

The invariants. A filter answers once it is complete. It contains the owners in the ledger, read after the filter was
created, and every owner to whom this process has granted something since, added before the grant is acknowledged.
Attempts that are queued or being decided may be granted, so their owners count too; owners of a batch whose outcome is
unknown count permanently. No other process may grant: `term` is None unless this process is the only one, and changes
whenever it was not, which invalidates older filters. Where others grant, too, see `confirmed_refusals.py`.

When it fails. If the ledger cannot be read, the filter is dropped, and built again after the next refusal.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from holdfast.domain.stock.command import Command, Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import EngineError
from holdfast.gate import owner_filter
from holdfast.gate.owner_filter import OwnerFilter
from holdfast.gate.sql_owners import load_owners
from holdfast.ledger.engine.database import Database

_RESERVED = Outcome.RESERVED


class _Filter(OwnerFilter):
    def __init__(self, term: int, queued: Iterable[str]) -> None:
        super().__init__()
        self.term = term
        self.is_complete = False
        self.queued = set(queued)
        self.deciding: set[str] = set()


class Winners:
    def __init__(self, database: Database, term: Callable[[], int | None]) -> None:
        self._database = database
        self._term = term
        self._filters: dict[str, _Filter] = {}
        self._loads: set[asyncio.Task[None]] = set()

    def may_include(self, sku_id: str, owner_id: str) -> bool:
        """Whether this owner's attempt may get a different result than that of an owner who has nothing."""
        found = self._filters.get(sku_id)
        if found is None or not found.is_complete or found.term != self._term():
            return True
        return found.may_have(owner_id) or owner_id in found.queued or owner_id in found.deciding

    def prepare(self, sku_id: str, queued: Iterable[Command]) -> None:
        """Start the filter of a pool that was found empty, given the commands that wait for its next batch."""
        term, found = self._term(), self._filters.get(sku_id)
        if term is None or (found is not None and found.term == term):
            return
        self._filters.pop(sku_id, None)
        if len(self._filters) >= owner_filter.POOLS_MAX:
            del self._filters[next(iter(self._filters))]
        made = self._filters[sku_id] = _Filter(term, _owners_of(queued))
        load = asyncio.create_task(self._load(sku_id, made))
        self._loads.add(load)
        load.add_done_callback(self._loads.discard)

    async def _load(self, sku_id: str, filling: _Filter) -> None:
        try:
            await load_owners(self._database, sku_id, filling.add)
        except EngineError:
            if self._filters.get(sku_id) is filling:
                del self._filters[sku_id]
            return
        # If the term has changed meanwhile, the filter is never used.
        filling.is_complete = True

    def queue(self, sku_id: str, owner_id: str) -> None:
        found = self._filters.get(sku_id)
        if found is not None:
            found.queued.add(owner_id)

    def begin(self, sku_id: str, commands: Iterable[Command], left: Iterable[Command]) -> None:
        """A batch begins; `left` are the commands that wait for the next one."""
        found = self._filters.get(sku_id)
        if found is not None:
            found.deciding, found.queued = set(_owners_of(commands)), set(_owners_of(left))

    def end(self, sku_id: str, commands: Sequence[Command], verdicts: Sequence[Verdict] | None) -> None:
        """The batch is over, and no caller has its verdicts yet; None if they are unknown."""
        found = self._filters.get(sku_id)
        if found is None:
            return
        if verdicts is None:
            found.add(_owners_of(commands))
        else:
            found.add([v.reservation.owner_id for v in verdicts if v.outcome is _RESERVED and v.reservation])
        found.deciding = set()

    async def drain(self) -> None:
        """Wait until no filter is being filled."""
        if self._loads:
            await asyncio.wait(self._loads)


def _owners_of(commands: Iterable[Command]) -> list[str]:
    return [command.owner_id for command in commands if type(command) is Reserve]
