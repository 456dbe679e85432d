"""The pure function that decides every batch.

The model. A batch is a list of commands for one pool, in arrival order, decided at one moment `now` (the engine's
clock, in milliseconds). `decide` takes the state that the batch can touch (`State`) and returns one verdict per command
and the changes to make durable. It reads no clock, does no I/O, and does not modify its input.

The invariants, for any sequence of commands:
  - total = available + held + sold, and none of them is ever negative;
  - a reservation ends exactly once, and its units return at most once;
  - a passed deadline takes effect immediately, whether or not the expirer has run: an overdue reservation cannot be
    extended, cancelled or confirmed, and its units go to the next buyer who would otherwise be refused;
  - a batch returns at most `DUE_RETURNED_MAX` due reservations, so its work does not grow with how many are due;
  - the same key with the same request gets the first answer; refusals are not stored.

The engine must put exactly this into `State`: the pool; the reservations that moves and extensions name; the stored
answers of the keys in the batch; the tallies of its owners if the rules count them; the active reservations with the
earliest deadlines (see `needs.py`) if the batch needs more than is free, counts owners or expires; and the pool's
counters if it gives or takes units. More state gives the same verdicts, so the engines are tested against a model that
keeps everything.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from holdfast.domain.stock.command import (
    TRANSITIONS,
    Command,
    Expire,
    Extend,
    Give,
    Move,
    Provision,
    Reserve,
    Restock,
    Take,
    Transition,
    Verdict,
)
from holdfast.domain.stock.limits import DUE_RETURNED_MAX, MAX_TOTAL_UNITS
from holdfast.domain.stock.needs import counts_owners
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Availability, Pool, Rules
from holdfast.domain.stock.refusals import refuse_by_rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.shards import is_shard
from holdfast.domain.stock.state import Changes, Decision, Event, Remembered, State, Tally, Transfer


def decide(state: State, commands: Sequence[Command], now: int) -> Decision:
    round_ = _Round(state, now, counts_owners(state.pool, commands))
    verdicts = [round_.answer(command) for command in commands]
    return Decision(verdicts, round_.changes())


# On Python 3.11 looking up an enum member takes longer than a dictionary key. Every grant uses these.
_ACTIVE, _RESERVED = Status.ACTIVE, Outcome.RESERVED
_RETURNED = {Status.CANCELLED, Status.FAILED, Status.EXPIRED}
# A failed payment is not a release by the buyer: only these count against the hold budget.
RELEASED = (Status.CANCELLED, Status.EXPIRED)
LIVE = (Status.ACTIVE, Status.SETTLING, Status.CONFIRMED)


class _Round:
    """One batch being decided: the state as it stands after the commands so far."""

    def __init__(self, state: State, now: int, counts_owners: bool) -> None:
        self._now = now
        self._counts_owners = counts_owners
        self._sku_id, self._before = state.sku_id, state.pool
        self._exists = state.pool is not None
        pool = state.pool or Pool(state.sku_id, 0)
        self._rules, self._ready = pool.rules, pool.ready
        self._total, self._held, self._sold, self._active = pool.total, pool.held, pool.sold, pool.active_reservations
        self._free = pool.available
        self._reservations = dict(state.reservations)
        self._remembered = dict(state.remembered)
        self._tallies = dict(state.tallies)
        self._deadlines = [
            (r.expires_at, r.reservation_id) for r in state.reservations.values() if r.status is Status.ACTIVE
        ]
        heapify(self._deadlines)
        self._overdue: dict[str, list[str]] = defaultdict(list)
        for reservation in state.reservations.values():
            if counts_owners and reservation.is_due(now):
                self._overdue[reservation.owner_id].append(reservation.reservation_id)
        self._returns_left = DUE_RETURNED_MAX
        self._created: list[str] = []
        self._moved: dict[str, None] = {}
        self._new_keys: list[Remembered] = []
        self._events: list[Event] = []
        self._last_given, self._last_taken = dict(state.counters.given), dict(state.counters.taken)
        self._given: list[Transfer] = []
        self._taken: list[Transfer] = []

    def answer(self, command: Command) -> Verdict:
        match command:
            case Reserve():
                return self._reserve(command)
            case _ if not self._exists and not isinstance(command, Provision):
                return Verdict(Outcome.POOL_NOT_FOUND)
            case Extend():
                return self._extend(command)
            case Move():
                return self._move(command)
            case Expire():
                return self._expire(command)
            case Restock():
                return self._set_total(self._total + command.units, self._rules, "pool.restocked")
            case Provision():
                return self._provision(command)
            case Give():
                return self._give(command)
            case Take():
                return self._take(command)

    # --- reserve

    def _reserve(self, command: Reserve) -> Verdict:
        first = None if command.key is None else self._remembered.get((command.owner_id, command.key))
        if first is not None:
            return _repeat(command, first)
        if not self._exists:
            return Verdict(Outcome.POOL_NOT_FOUND)
        if not self._ready:
            return Verdict(Outcome.NOT_READY)
        if refusal := refuse_by_rules(self._rules, command, self._now):
            return refusal
        quantity = command.quantity
        if self._counts_owners and self._rules.count_owners:
            self._return_overdue_of(command.owner_id)
            room = self._room_of(command)
            if room < command.min_quantity:
                return Verdict(Outcome.BUYER_LIMIT)
            if self._budget_spent(command.owner_id):
                return Verdict(Outcome.HOLD_BUDGET)
            quantity = min(quantity, room)
        if self._free < quantity:
            self._return_due_until(lambda: self._free >= quantity)
            quantity = min(quantity, self._free)
        if quantity < command.min_quantity:
            return self._refuse_for_stock()
        return self._grant(command, quantity)

    def _return_overdue_of(self, owner_id: str) -> None:
        """An owner's overdue holds count as released, even if the expirer has not run yet."""
        for reservation_id in self._overdue.pop(owner_id, ()):
            reservation = self._reservations[reservation_id]
            if reservation.is_due(self._now):
                self._end(reservation, Status.EXPIRED)

    def _room_of(self, command: Reserve) -> int:
        """How many units the owner may still take."""
        limit = self._rules.per_owner_limit
        return command.quantity if limit is None else limit - self._tally(command.owner_id).live_units

    def _budget_spent(self, owner_id: str) -> bool:
        budget = self._rules.hold_budget
        return budget is not None and self._tally(owner_id).released >= budget

    def _refuse_for_stock(self) -> Verdict:
        if self._free > 0:
            return Verdict(Outcome.INSUFFICIENT, available=self._free)
        if self._held > 0:
            deadline = self._next_deadline()
            # It has passed already if this batch may return no more.
            wait = None if deadline is None else max(deadline - self._now, 0)
            return Verdict(Outcome.ALL_HELD, available=0, next_return_at=deadline, retry_after_ms=wait)
        return Verdict(Outcome.SOLD_OUT, available=0)

    def _grant(self, command: Reserve, quantity: int) -> Verdict:
        now = self._now
        id_, owner_id, expires_at = command.reservation_id, command.owner_id, now + command.ttl_ms
        reservation = Reservation(id_, self._sku_id, owner_id, quantity, _ACTIVE, now, expires_at)
        self._reservations[command.reservation_id] = reservation
        self._created.append(command.reservation_id)
        heappush(self._deadlines, (reservation.expires_at, reservation.reservation_id))
        self._held += quantity
        self._free -= quantity
        self._active += 1
        if self._counts_owners:
            self._count(command.owner_id, quantity, 0)
        self._record("reservation.created", reservation)
        if command.key is not None:
            first = Remembered(command.owner_id, command.key, command.fingerprint, reservation)
            self._remembered[command.owner_id, command.key] = first
            self._new_keys.append(first)
        if command.settle:
            reservation = self._end(reservation, Status.SETTLING)
        return Verdict(_RESERVED, reservation)

    # --- extend and move

    def _find(self, reservation_id: str, owner_id: str | None) -> Reservation | None:
        reservation = self._reservations.get(reservation_id)
        if reservation is None or (owner_id is not None and reservation.owner_id != owner_id):
            return None
        if reservation.is_due(self._now):
            return self._end(reservation, Status.EXPIRED)
        return reservation

    def _extend(self, command: Extend) -> Verdict:
        reservation = self._find(command.reservation_id, command.owner_id)
        if reservation is None:
            return Verdict(Outcome.NOT_FOUND)
        if reservation.status is not Status.ACTIVE:
            return Verdict(Outcome.ILLEGAL, reservation)
        latest = reservation.created_at + command.max_hold_ms
        if reservation.expires_at >= latest:
            return Verdict(Outcome.EXTENSION_LIMIT, reservation, latest_expires_at=latest)
        expires_at = min(self._now + command.ttl_ms, latest)
        if expires_at <= reservation.expires_at:
            return Verdict(Outcome.ALREADY, reservation)
        extended = replace(reservation, expires_at=expires_at)
        self._put(extended)
        heappush(self._deadlines, (expires_at, extended.reservation_id))
        self._record("reservation.extended", extended)
        return Verdict(Outcome.MOVED, extended)

    def _move(self, command: Move) -> Verdict:
        reservation = self._find(command.reservation_id, command.owner_id)
        if reservation is None:
            return Verdict(Outcome.NOT_FOUND)
        sources, target = TRANSITIONS[command.transition]
        if reservation.status is not target and reservation.status not in sources:
            return Verdict(Outcome.ILLEGAL, reservation)
        if reservation.status is target or command.is_of_another_attempt(reservation):
            return Verdict(Outcome.ALREADY, reservation)
        is_reopening = command.transition is Transition.REOPEN
        return Verdict(Outcome.MOVED, self._reopen(reservation) if is_reopening else self._end(reservation, target))

    def _reopen(self, reservation: Reservation) -> Reservation:
        """A deadline that has passed meanwhile takes effect: the payment has failed."""
        if reservation.expires_at <= self._now:
            return self._end(reservation, Status.FAILED)
        reopened = replace(reservation, status=Status.ACTIVE)
        self._put(reopened)
        self._active += 1
        heappush(self._deadlines, (reopened.expires_at, reopened.reservation_id))
        self._record("reservation.reopened", reopened)
        return reopened

    def _end(self, reservation: Reservation, status: Status) -> Reservation:
        """Move a reservation and its units to the next state."""
        attempts = reservation.attempts + (status is Status.SETTLING)
        confirmed_at = self._now if status is Status.CONFIRMED else None
        self._put(moved := replace(reservation, status=status, attempts=attempts, confirmed_at=confirmed_at))
        if reservation.status is Status.ACTIVE:
            self._active -= 1
        if status is Status.CONFIRMED:
            self._held -= moved.quantity
            self._sold += moved.quantity
        elif status in _RETURNED:
            self._held -= moved.quantity
            self._free += moved.quantity
            if self._counts_owners:
                self._count(moved.owner_id, -moved.quantity, int(status in RELEASED))
        self._record(f"reservation.{status}", moved)
        return moved

    # --- deadlines

    def _expire(self, command: Expire) -> Verdict:
        return Verdict(Outcome.MOVED, units=self._return_due_until(lambda: False, command.limit))

    def _return_due_until(self, enough: Callable[[], bool], limit: int = DUE_RETURNED_MAX) -> int:
        returned, least_left = 0, max(self._returns_left - limit, 0)
        while self._returns_left > least_left and not enough():
            deadline = self._next_deadline()
            if deadline is None or deadline > self._now:
                break
            reservation = self._reservations[heappop(self._deadlines)[1]]
            self._returns_left -= 1
            returned += self._end(reservation, Status.EXPIRED).quantity
        return returned

    def _next_deadline(self) -> int | None:
        """The earliest deadline of an active reservation. Outdated entries of the heap are dropped."""
        deadlines = self._deadlines
        while deadlines:
            expires_at, reservation_id = deadlines[0]
            reservation = self._reservations[reservation_id]
            if reservation.status is Status.ACTIVE and reservation.expires_at == expires_at:
                return expires_at
            heappop(deadlines)
        return None

    # --- stock

    def _provision(self, command: Provision) -> Verdict:
        if command.only_if_missing and self._exists:
            return Verdict(Outcome.ALREADY, pool=self._pool())
        if command.unless_in_sale and self._rules.is_in_sale:
            return Verdict(Outcome.ILLEGAL, pool=self._pool())
        # Only a shard is created without units; they are transferred to it.
        if command.total is None and not (self._exists or is_shard(self._sku_id)):
            return Verdict(Outcome.POOL_NOT_FOUND)
        total = self._total if command.total is None else command.total
        rules = command.rules or self._rules
        if command.changes is not None:
            rules = command.changes.applied_to(rules)
        return self._set_total(total, rules, "pool.provisioned")

    def _set_total(self, total: int, rules: Rules, event: str) -> Verdict:
        if total > MAX_TOTAL_UNITS:
            return Verdict(Outcome.ILLEGAL, pool=self._pool())
        committed = self._total - self._free
        if total < committed:
            self._return_due_until(lambda: total >= self._total - self._free)
            committed = self._total - self._free
        if total < committed:
            return Verdict(Outcome.INSUFFICIENT, pool=self._pool(), available=self._free)
        if total != self._total or not self._exists:
            self._events.append(Event(event, self._now, quantity=total - self._total))
        self._free += total - self._total
        self._total, self._rules, self._exists = total, rules, True
        return Verdict(Outcome.MOVED, pool=self._pool())

    def _give(self, command: Give) -> Verdict:
        """Only free units can be given; held and sold ones stay."""
        self._return_due_until(lambda: self._free >= command.units)
        units = min(command.units, self._free)
        if units == 0:
            return Verdict(Outcome.INSUFFICIENT)
        number = self._last_given[command.receiver] = self._last_given.get(command.receiver, 0) + 1
        self._given.append(Transfer(self._sku_id, command.receiver, number, units))
        return self._pass(-units, "pool.given")

    def _take(self, command: Take) -> Verdict:
        """Each number is taken exactly once and in order, however often it is sent."""
        last = self._last_taken.get(command.donor, 0)
        if command.number != last + 1:
            return Verdict(Outcome.ALREADY if command.number <= last else Outcome.ILLEGAL)
        self._last_taken[command.donor] = command.number
        self._taken.append(Transfer(command.donor, self._sku_id, command.number, command.units))
        return self._pass(command.units, "pool.taken")

    def _pass(self, units: int, event: str) -> Verdict:
        self._total += units
        self._free += units
        self._events.append(Event(event, self._now, quantity=units))
        return Verdict(Outcome.MOVED, units=abs(units))

    # --- bookkeeping

    def _tally(self, owner_id: str) -> Tally:
        return self._tallies.get(owner_id) or Tally()

    def _count(self, owner_id: str, units: int, released: int) -> None:
        tally = self._tally(owner_id)
        self._tallies[owner_id] = Tally(tally.live_units + units, tally.released + released)

    def _put(self, reservation: Reservation) -> None:
        self._reservations[reservation.reservation_id] = reservation
        self._moved[reservation.reservation_id] = None

    def _record(self, event_type: str, reservation: Reservation) -> None:
        self._events.append(
            Event(event_type, self._now, reservation.reservation_id, reservation.quantity, reservation.expires_at)
        )

    def _pool(self) -> Pool:
        return Pool(self._sku_id, self._total, self._held, self._sold, self._active, self._ready, self._rules)

    def changes(self) -> Changes:
        self._record_availability()
        pool = self._pool() if self._exists else None
        created = set(self._created)
        return Changes(
            # The pool stores the time of every event, so that its clock never goes back.
            pool=pool if self._events or pool != self._before else None,
            created=[self._reservations[id_] for id_ in self._created],
            moved=[self._reservations[id_] for id_ in self._moved if id_ not in created],
            remembered=self._new_keys,
            events=self._events,
            given=self._given,
            taken=self._taken,
        )

    def _record_availability(self) -> None:
        """Record an event if the batch sold the pool out, or made units available again.

        A shard records none: it does not know whether the whole pool is empty.
        """
        if self._before is None or is_shard(self._sku_id):
            return
        before, after = self._before.availability, self._pool().availability
        if before is not after and after is not Availability.ALL_HELD:
            name = "pool.sold_out" if after is Availability.SOLD_OUT else "pool.returned"
            self._events.append(Event(name, self._now, quantity=self._free))


def _repeat(command: Reserve, first: Remembered) -> Verdict:
    if first.fingerprint != command.fingerprint:
        return Verdict(Outcome.KEY_REUSED)
    granted = replace(first.reservation, status=command.granted_status, attempts=command.granted_attempts)
    return Verdict(Outcome.REPLAYED, granted)
