"""Refuses attempts with idempotency keys at an empty pool that other processes grant from, too: one read for many.

The model. As in `winners.py`, a pool that was found empty gets a filter of all owners of a reservation in it. Other
processes may grant at any moment, so memory alone is not enough. Instead, attempts that arrive during a read share the
next one. One read returns, as of one moment, whether the pool is still empty and which owners got units since the
filter was last complete. An owner who is not in the filter then has nothing: none of their keys can be known and no
limit counts against them, so they are refused without looking up their keys. The gate decides for owners who may be in
the filter.

The invariants. A read begins after every attempt that it answers has arrived, so it sees every grant that any process
has acknowledged before. The filter is complete up to a mark. Only a read advances the mark, together with adding the
owners in between. If anything is uncertain (the pool has changed, the store does not respond or no longer has the
changes after the mark), the result is None, and the gate decides. `term` is None while the ledger is in doubt, and
changes afterwards, which invalidates older filters.

When it fails. A filter that could not be filled or updated is dropped, and rebuilt after a later refusal.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol

from msgspec import Struct

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.errors import EngineError
from holdfast.gate import owner_filter
from holdfast.gate.cached_refusal import OUT_OF_STOCK, CachedRefusal, count_refusals, lasting_s
from holdfast.gate.owner_filter import OwnerFilter
from holdfast.runtime.log import log_failure

# At 5,000 attempts per second, 15 share a read, as they share a batch.
GATHER_S = 0.003
# A filter that was not updated for this long is rebuilt: history is deleted after two days.
FOLLOWED_S = 600.0
# The pause before retrying a pool whose filter could not be filled.
RETRY_S = 1.0

# How long a read may take before the gate decides instead: longer than any read of a healthy store.
LOOK_TIMEOUT_S = 0.5
# At most this many wait for the next read of a pool, as in a queue; the gate decides or drops the others.
WAITING_MAX = 8192

# The position up to which a store was read; each store has its own kind.
Mark = Any
Add = Callable[[Iterable[str]], None]


class Seen(Struct, frozen=True):
    """A snapshot of a store."""

    # The verdict on the attempt in question; None if it would change anything.
    verdict: Verdict | None
    # The owners who got units since the mark, and the new mark.
    owner_ids: Sequence[str]
    mark: Mark


class OwnerFeed(Protocol):
    async def load(self, sku_id: str, add: Add) -> Mark | None:
        """Add everyone who has a reservation in the pool, including ended ones. Returns the mark up to which they are
        complete; None if it cannot be determined."""

    async def look(self, sku_id: str, mark: Mark, attempt: Reserve) -> Seen | None:
        """The result for an attempt of an owner who has nothing. None if the changes after the mark are no longer
        available."""


class _Followed:
    def __init__(self, term: int) -> None:
        self.term = term
        self.owners = OwnerFilter()
        self.mark: Mark | None = None
        self.read_at = monotonic()
        self.cached: CachedRefusal | None = None
        self.waiting: list[tuple[str, asyncio.Future[Verdict | None]]] = []
        self.reading: asyncio.Task[None] | None = None


class ConfirmedRefusals:
    def __init__(self, feed: OwnerFeed, term: Callable[[], int | None], cache_s: float) -> None:
        self._feed = feed
        self._term = term
        self._cache_s = cache_s
        self._pools: dict[str, _Followed] = {}
        self._not_before: dict[str, float] = {}
        self._loads: set[asyncio.Task[None]] = set()

    def ask(self, sku_id: str, owner_id: str, cached: CachedRefusal) -> "asyncio.Future[Verdict | None] | None":
        """The future refusal, or None if the gate has to decide. The future's result may be None, too."""
        found = self._pools.get(sku_id)
        if found is None or found.mark is None or found.owners.may_have(owner_id):
            return None
        if found.term != self._term() or monotonic() - found.read_at > FOLLOWED_S:
            self._drop(sku_id, found)
            return None
        if len(found.waiting) >= WAITING_MAX:
            return None
        found.cached = cached
        answer: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
        found.waiting.append((owner_id, answer))
        if found.reading is None:
            found.reading = asyncio.create_task(self._serve(sku_id, found))
        return answer

    def prepare(self, sku_id: str) -> None:
        """Build the filter of a pool that was found empty."""
        term, found = self._term(), self._pools.get(sku_id)
        if term is None or (found is not None and found.term == term):
            return
        now = monotonic()
        if self._not_before.get(sku_id, now) > now:
            return
        self._pools.pop(sku_id, None)
        if len(self._pools) >= owner_filter.POOLS_MAX:
            del self._pools[next(iter(self._pools))]
        made = self._pools[sku_id] = _Followed(term)
        load = asyncio.create_task(self._load(sku_id, made))
        self._loads.add(load)
        load.add_done_callback(self._loads.discard)

    async def drain(self) -> None:
        """Wait until no filter is being filled."""
        if self._loads:
            await asyncio.wait(self._loads)

    async def _load(self, sku_id: str, filling: _Followed) -> None:
        mark = None
        try:
            mark = await self._feed.load(sku_id, filling.owners.add)
        except Exception as exc:
            log_failure("owners_not_loaded", exc, sku_id=sku_id)
        if mark is None:
            self._drop(sku_id, filling)
            return
        filling.mark, filling.read_at = mark, monotonic()

    def _drop(self, sku_id: str, dropped: _Followed) -> None:
        if self._pools.get(sku_id) is dropped:
            del self._pools[sku_id]
        if len(self._not_before) >= owner_filter.POOLS_MAX:
            self._not_before.clear()
        self._not_before[sku_id] = monotonic() + RETRY_S

    async def _serve(self, sku_id: str, followed: _Followed) -> None:
        waiting: list[tuple[str, asyncio.Future[Verdict | None]]] = []
        try:
            while followed.waiting:
                await asyncio.sleep(max(followed.read_at + GATHER_S - monotonic(), 0))
                waiting, followed.waiting = followed.waiting, []
                verdict = await self._look(sku_id, followed)
                refused = _answer(waiting, verdict, followed.owners)
                if verdict is not None:
                    count_refusals(sku_id, verdict.outcome, refused)
        finally:
            # Whatever happened, the gate decides for the rest.
            followed.reading = None
            _answer([*waiting, *followed.waiting], None, followed.owners)
            followed.waiting = []

    async def _look(self, sku_id: str, followed: _Followed) -> Verdict | None:
        cached, started = followed.cached, monotonic()
        assert cached is not None
        followed.read_at = started
        attempt = Reserve("", "", cached.min_quantity, cached.min_quantity, tier=cached.tier)
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                seen = await self._feed.look(sku_id, followed.mark, attempt)
        except TimeoutError:
            # Later attempts do not wait for a store that does not respond.
            self._drop(sku_id, followed)
            return None
        except EngineError:
            return None  # The gate reports the problem.
        if seen is None:
            self._drop(sku_id, followed)
            return None
        followed.owners.add(seen.owner_ids)
        followed.mark = seen.mark
        if seen.verdict is None or seen.verdict.outcome not in OUT_OF_STOCK or followed.term != self._term():
            return None
        cached.verdict, cached.since, cached.given = seen.verdict, started, 0
        cached.until = started + lasting_s(seen.verdict, self._cache_s)
        return seen.verdict


def _answer(
    waiting: Iterable[tuple[str, asyncio.Future[Verdict | None]]], verdict: Verdict | None, owners: OwnerFilter
) -> int:
    """Returns how many were refused."""
    refused = 0
    for owner_id, answer in waiting:
        if answer.done():
            continue
        if verdict is None or owners.may_have(owner_id):
            answer.set_result(None)
        else:
            answer.set_result(verdict)
            refused += 1
    return refused
