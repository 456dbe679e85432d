"""The model every engine is measured against: it keeps everything, and decides from all of it."""

from collections.abc import Sequence
from heapq import nsmallest

from holdfast.domain.stock.command import Command, Extend, Move, Reserve, Verdict
from holdfast.domain.stock.needs import counts_owners, needed_by_deadline
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Changes, Counters, State
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import tallies_of


class Model:
    def __init__(self, sku_id: str) -> None:
        self.snapshot = LedgerSnapshot(sku_id, None, {}, {}, [])
        self.counters = Counters({}, {})

    def apply(self, commands: Sequence[Command], now: int) -> list[Verdict]:
        decision = decide(self.state(), commands, now)
        self._write(decision.changes)
        return decision.verdicts

    def state(self) -> State:
        snapshot = self.snapshot
        found = dict(snapshot.reservations)
        tallies = tallies_of(found.values())
        return State(snapshot.sku_id, snapshot.pool, found, dict(snapshot.remembered), tallies, self.counters)

    def _write(self, changes: Changes) -> None:
        snapshot = self.snapshot
        snapshot.pool = changes.pool or snapshot.pool
        snapshot.reservations |= {r.reservation_id: r for r in [*changes.created, *changes.moved]}
        snapshot.remembered |= {(first.owner_id, first.key): first for first in changes.remembered}
        snapshot.events += changes.events
        given = {**self.counters.given, **{t.receiver: t.number for t in changes.given}}
        self.counters = Counters(given, {**self.counters.taken, **{t.donor: t.number for t in changes.taken}})


def _earliest(reservations: list[Reservation], limit: int) -> list[Reservation]:
    return nsmallest(limit, reservations, key=lambda r: (r.expires_at, r.reservation_id))


def needed(whole: State, commands: Sequence[Command], now: int) -> State:
    """What the rulebook says an engine must load for a batch, no more and no less."""
    if whole.pool is None:
        return State(whole.sku_id)
    reservations = whole.reservations.values()
    named = {c.reservation_id for c in commands if isinstance(c, Move | Extend)}
    owners = {c.owner_id for c in commands if isinstance(c, Reserve)}
    keys = {(c.owner_id, c.key) for c in commands if isinstance(c, Reserve) and c.key is not None}
    counted = owners if counts_owners(whole.pool, commands) else set()
    own_due = [r for r in reservations if r.owner_id in counted and r.is_due(now)]
    found = [r for r in reservations if r.reservation_id in named]
    active = [r for r in reservations if r.status is Status.ACTIVE]
    limits = needed_by_deadline(whole.pool, commands, len(found) + len(own_due))
    due, later = [r for r in active if r.is_due(now)], [r for r in active if not r.is_due(now)]
    earliest = [*_earliest(due, limits.due), *_earliest(later, limits.later)]
    return State(
        whole.sku_id,
        whole.pool,
        {r.reservation_id: r for r in [*found, *own_due, *earliest]},
        {key: first for key, first in whole.remembered.items() if key in keys},
        {owner: tally for owner, tally in whole.tallies.items() if owner in counted},
        whole.counters,
    )
