"""Accepts arrivals while the store is unavailable, and stages them as soon as it is back.

An arrival gets a stamp and a signed provisional ticket, from memory alone, and is kept here until it is written to the
store. If this process is killed before that, the ticket is the record: its owner shows it to any server, which stages
it then. So the arrivals kept here are an optimisation, and may be bounded.
"""

import secrets
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count, islice
from time import monotonic

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.room.room import Arrival
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.arrivals import stage
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.agent import Agent

STAGED_AT_ONCE = 5_000
# About 300 bytes each.
KEPT_MAX = 1_000_000
STAGED_KNOWN_MAX = 200_000
# A ticket without a place this long after staging is staged again: the store may have lost it.
STAGED_AGAIN_S = 30.0
INTERVAL_S, IDLE_S = 0.2, 5.0
# After a failed join, later ones neither wait for the store nor get a place for this long: when it is back, all
# processes first stage their arrivals, which they try every second.
AWAY_S = 2.0

# Less than the skew in which arrivals have no defined order, together with what the ledger allows (`MAY_OVERTAKE_MS`).
HELD_AFTER_S = 0.5

_Key = tuple[str, str]


class _Kept(Struct, frozen=True):
    arrival: Arrival
    # Since when, by the monotonic clock.
    at: float


class ArrivalStager:
    def __init__(self, database: Database, wakeup: Wakeup) -> None:
        self._database, self._wakeup = database, wakeup
        self.node = secrets.token_hex(4)
        self._sequence = count()
        # A plain dict finds its first entry slowly after earlier ones were deleted.
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        # When each was staged, by the monotonic clock.
        self._staged: OrderedDict[str, float] = OrderedDict()
        self._away_until = float("-inf")
        self._wake = Wakeup().subscribe()

    def agent(self) -> Agent[None]:
        return Agent(
            "arrival_stager",
            self.pass_once,
            INTERVAL_S,
            rest_s=lambda _: IDLE_S,
            wake=self._wake,
            least_rest_s=INTERVAL_S,
        )

    @property
    def is_holding(self) -> bool:
        """Whether new arrivals must be stamped, because a place would put them ahead of earlier ones. The most recent
        arrivals do not count: a busy room always has some, and would never return to normal."""
        return self.is_away or (bool(self._kept) and monotonic() - next(iter(self._kept.values())).at > HELD_AFTER_S)

    @property
    def is_away(self) -> bool:
        """Whether the store has just failed and is not tried for a while."""
        return monotonic() < self._away_until

    def note_failure(self) -> None:
        """The store failed to take a join."""
        self._away_until = monotonic() + AWAY_S

    @property
    def kept(self) -> int:
        """Arrivals that are not staged yet."""
        return len(self._kept)

    def stamp(self, sale_id: str, buyer_id: str, ticket_id: str, arrived_at: int) -> Arrival:
        """A buyer who asks again before the arrival is staged keeps the first stamp."""
        known = self._known(sale_id, buyer_id)
        if known is not None and known.arrived_at <= arrived_at:
            return known
        arrival = Arrival(sale_id, buyer_id, ticket_id, arrived_at, self.node, next(self._sequence))
        self._keep(arrival)
        return arrival

    def show(self, arrival: Arrival) -> None:
        """Accept a provisional ticket that has no place yet. One from another process may not be staged."""
        known = self._known(arrival.sale_id, arrival.buyer_id)
        is_staged = monotonic() - self._staged.get(arrival.ticket_id, float("-inf")) < STAGED_AGAIN_S
        if not is_staged and (known is None or arrival.arrived_at < known.arrived_at):
            self._keep(arrival)

    def _known(self, sale_id: str, buyer_id: str) -> Arrival | None:
        kept = self._kept.get((sale_id, buyer_id))
        return None if kept is None else kept.arrival

    def _keep(self, arrival: Arrival) -> None:
        key = (arrival.sale_id, arrival.buyer_id)
        if len(self._kept) < KEPT_MAX or key in self._kept:
            self._kept[key] = _Kept(arrival, monotonic())
            self._wake.set()

    async def pass_once(self) -> None:
        while self._kept:
            portion = [kept.arrival for kept in islice(self._kept.values(), STAGED_AT_ONCE)]
            await self._database.write(partial(self._stage, portion))
            self._forget(portion)
            self._wakeup.wake()

    def _stage(self, portion: Sequence[Arrival], connection: Connection) -> None:
        stage(connection, portion, self._database.now_ms(connection))

    def _forget(self, portion: Iterable[Arrival]) -> None:
        """Remove it, unless an earlier stamp replaced it meanwhile."""
        for arrival in portion:
            key = (arrival.sale_id, arrival.buyer_id)
            if self._known(*key) is arrival:
                del self._kept[key]
            if len(self._staged) >= STAGED_KNOWN_MAX:
                self._staged.popitem(last=False)
            self._staged[arrival.ticket_id] = monotonic()
            self._staged.move_to_end(arrival.ticket_id)
