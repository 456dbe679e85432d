"""Gate, journal, drain, rebuild, ledger mark: a small model, checked in every interleaving. See README.md.

python docs/model/model.py                    every guard on: no violation
python docs/model/model.py --without epoch    the shortest history in which that guard is missed
"""
# ruff: noqa: INP001 - a program of its own, which needs nothing installed.

import sys
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

TOTAL = 1
BUYERS = ("ann", "bob")
PROCESSES = (0, 1)
GUARDS = frozenset({"epoch", "claim", "trim", "fence", "mark"})

Hold = tuple[str, int]  # whose, and which
Holds = frozenset[Hold]
NONE: Holds = frozenset()


class Bounds(NamedTuple):
    """How much may happen in one history."""

    writes: int
    epochs: int
    redis_faults: int
    ledger_faults: int


# Everything at once would be millions of histories.
CASES = {
    "two rebuilds, no fault": Bounds(2, 3, 0, 0),
    "the ledger goes back": Bounds(2, 2, 0, 1),
    "Redis loses data": Bounds(2, 2, 1, 0),
}
# Where the absence of each guard shows soonest, and what it breaks there.
SHOWN_BY = {
    "epoch": (Bounds(2, 2, 1, 0), "I5"),
    "claim": (Bounds(4, 1, 1, 0), "I1"),
    "trim": (Bounds(2, 2, 0, 0), "I9"),
    "fence": (Bounds(2, 3, 0, 0), "I9"),
    "mark": (Bounds(2, 2, 0, 1), "went back"),
}


class Entry(NamedTuple):
    """A change in the journal. `tip` names it, and `after` the one before it."""

    seq: int
    after: int
    tip: int
    what: str
    hold: Hold


class Redis(NamedTuple):
    epoch: int = 1
    seq: int = 0
    tip: int = 0
    held: Holds = NONE
    sold: Holds = NONE
    keys: Holds = NONE
    journal: tuple[Entry, ...] = ()
    is_open: bool = True
    is_back: bool = False  # It lost data, and has not been rebuilt since.


class Ledger(NamedTuple):
    epoch: int = 1
    seq: int = 0
    tip: int = 0
    held: Holds = NONE
    sold: Holds = NONE
    keys: Holds = NONE
    claimed: Holds = NONE  # Sold, but the journal has not said so yet.
    events: int = 0


class Position(NamedTuple):
    epoch: int
    seq: int


class State(NamedTuple):
    redis: Redis | None = Redis()
    redis_copy: Redis | None = None
    ledger: Ledger = Ledger()
    ledger_copy: Ledger | None = None
    mark: int = 0  # How far the ledger was seen, kept outside of it.
    seen: tuple[Position | None, ...] = (None,) * len(PROCESSES)
    confirming: frozenset[tuple[Hold, int]] = frozenset()  # Redis granted it under this epoch; the ledger comes next.
    rebuild: str = ""  # How far somebody is with it: closed, drained.
    loads: frozenset[Redis] = frozenset()  # What processes are about to load into Redis.
    # What was said to buyers, and what they paid for.
    told_held: Holds = NONE
    told_sold: Holds = NONE
    paid: Holds = NONE
    excused: Holds = NONE
    writes: int = 0
    redis_faults: int = 0
    ledger_faults: int = 0

    @property
    def went_back(self) -> bool:
        return self.ledger.events < self.mark


Step = tuple[str, State]


class Model:
    def __init__(self, guards: frozenset[str], bounds: Bounds) -> None:
        self.guards, self.bounds = guards, bounds

    def steps(self, state: State) -> Iterator[Step]:
        yield from self._faults(state)
        if "mark" in self.guards and state.went_back:
            return
        for process in PROCESSES:
            yield from self._calls(state, process)
        yield from self._claims(state)
        yield from self._drain(state)
        yield from self._rebuild(state)

    # --- buyers, through a process

    def _calls(self, state: State, process: int) -> Iterator[Step]:
        redis, seen = state.redis, state.seen[process]
        if seen is None:
            learnt = Position(state.ledger.epoch, state.ledger.seq)
            yield f"process {process} learns how far the ledger is", _saw(state, process, learnt)
            return
        if redis is None or not redis.is_open:
            return
        has_seen_more = redis.epoch != seen.epoch or redis.seq < seen.seq
        if has_seen_more and "epoch" in self.guards:
            yield f"process {process} is refused", _saw(state, process, None)
            return
        for buyer in BUYERS:
            for what, after, hold in self._answers(state, redis, buyer):
                excused = after.excused | {hold} if redis.is_back and not has_seen_more else after.excused
                done = after._replace(excused=excused)
                yield f"process {process}: {what} for {buyer}, and the answer is lost", done
                yield f"process {process}: {what} for {buyer}", _tell(done, process, what, hold)

    def _answers(self, state: State, redis: Redis, buyer: str) -> Iterator[tuple[str, State, Hold]]:
        known = next((hold for hold in redis.keys if hold[0] == buyer), None)
        if known is not None:
            yield "reserve (replayed)", state, known
        elif len(redis.held | redis.sold) < TOTAL and state.writes < self.bounds.writes:
            hold = (buyer, state.writes + 1)
            yield "reserve", _write(state, "reserve", hold), hold
        for hold in redis.held:
            if hold[0] == buyer and state.writes < self.bounds.writes:
                yield "confirm", _write(state, "confirm", hold), hold
                yield "cancel", _write(state, "cancel", hold), hold
        for hold in redis.sold:
            if hold[0] == buyer and hold not in state.told_sold:
                yield "confirm (again)", state, hold

    def _claims(self, state: State) -> Iterator[Step]:
        for hold, epoch in state.confirming:
            left = state._replace(confirming=state.confirming - {(hold, epoch)})
            ledger = state.ledger
            if "claim" not in self.guards:
                yield f"money is taken for {hold}", _pay(left, hold)
            elif ledger.epoch == epoch and len(ledger.sold | ledger.claimed | {hold}) <= TOTAL:
                claimed = ledger._replace(claimed=(ledger.claimed | {hold}) - ledger.sold)
                yield f"the ledger claims {hold}; money is taken", _pay(_commit(left, claimed), hold)
            else:
                yield f"the ledger refuses to claim {hold}", left

    # --- the journal becomes the ledger

    def _drain(self, state: State) -> Iterator[Step]:
        redis, ledger = state.redis, state.ledger
        if redis is None or redis.epoch != ledger.epoch:
            return
        entry = _next_entry(state)
        if entry is not None:
            yield f"the ledger reads {entry.what} of {entry.hold}", _commit(state, _read(ledger, entry))
        until = ledger.seq if "trim" in self.guards else redis.seq
        kept = tuple(entry for entry in redis.journal if entry.seq > until)
        if kept != redis.journal:
            yield f"the journal is trimmed up to {until}", state._replace(redis=redis._replace(journal=kept))

    def _rebuild(self, state: State) -> Iterator[Step]:
        """It may be begun at any time, by anybody, and must be safe."""
        redis, ledger = state.redis, state.ledger
        if ledger.epoch < self.bounds.epochs and not state.rebuild:
            closed = self._closed(redis, ledger.epoch)
            yield f"a rebuild closes epoch {ledger.epoch} in Redis", state._replace(redis=closed, rebuild="closed")
        if state.rebuild == "closed" and _next_entry(state) is None:
            yield "nothing is left to read of the journal", state._replace(rebuild="drained")
        if state.rebuild == "drained":
            # Claims are settled: what was granted a second time is taken back.
            sold = ledger.sold | ledger.claimed
            held = ledger.held - sold if len(ledger.held | sold) <= TOTAL else NONE
            begun = Ledger(ledger.epoch + 1, 0, 0, held, sold, ledger.keys, NONE, ledger.events)
            load = Redis(begun.epoch, 0, 0, held, sold, ledger.keys)
            excused = state.excused | (ledger.held - held - sold)
            after = _commit(state, begun)._replace(rebuild="", loads=state.loads | {load}, excused=excused)
            yield f"epoch {begun.epoch} begins in the ledger", after
        for load in state.loads:
            if redis is None or redis.epoch < load.epoch:
                left = state.loads - {load}
                yield f"Redis is loaded under epoch {load.epoch}", state._replace(redis=load, loads=left)

    def _closed(self, redis: Redis | None, epoch: int) -> Redis | None:
        """Nothing is decided under this epoch any more; with the fence, nor by a process that has yet to load it."""
        if redis is not None and redis.epoch == epoch:
            return redis._replace(is_open=False)
        is_older = redis is None or redis.epoch < epoch
        return Redis(epoch, is_open=False) if is_older and "fence" in self.guards else redis

    # --- what may go wrong

    def _faults(self, state: State) -> Iterator[Step]:
        redis, copy = state.redis, state.redis_copy
        if state.redis_faults < self.bounds.redis_faults:
            if copy is None:
                yield "Redis makes a snapshot", state._replace(redis_copy=redis)
            elif redis != copy:
                yield "Redis goes back to its snapshot", _lose(state, copy._replace(is_back=True))
            if redis is not None:
                yield "Redis loses everything", _lose(state, None)
        if state.ledger_faults < self.bounds.ledger_faults:
            if state.ledger_copy is None:
                yield "the ledger is copied", state._replace(ledger_copy=state.ledger)
            elif state.ledger != state.ledger_copy:
                back = state._replace(ledger=state.ledger_copy, ledger_faults=state.ledger_faults + 1)
                yield "the ledger goes back to its copy", back._replace(ledger_copy=None)


def violation(state: State) -> str | None:
    """What must hold in every state."""
    ledger, sold = state.ledger, state.ledger.sold | state.ledger.claimed
    if len(state.paid) > TOTAL or len(sold) > TOTAL:
        return f"I1: {len(state.paid)} were paid for and {len(sold)} are sold, of {TOTAL}"
    promised = state.told_held - state.excused
    for buyer in BUYERS:
        if len(answers := [hold for hold in promised if hold[0] == buyer]) > 1:
            return f"I5: {buyer} asked with one key, and was given {sorted(answers)}"
    if state.went_back:
        return None  # Found, and closed until a person has decided.
    if not state.told_sold <= sold:
        return f"I9: {sorted(state.told_sold - sold)} was said to be sold, and the ledger does not know of it"
    if lost := promised - ledger.keys - sold - _unread(state):
        return f"I9: {sorted(lost)} was said to be held, and neither the ledger nor the journal knows of it"
    return None


def acts_on_old_ledger(before: State, after: State) -> str | None:
    """The ledger went back: until a person has decided, no money moves, and what Redis still knows is kept."""
    if not before.went_back:
        return None
    if after.paid != before.paid:
        return "went back: money moves on a ledger that lacks what was acknowledged"
    if after.ledger.epoch > before.ledger.epoch:
        return "went back: Redis is about to be rebuilt from a ledger that knows less"
    return None


def check(model: Model, about: str = "") -> tuple[int, list[str]]:
    """How many states there are, and the shortest history to a violation (of what it is `about`), if there is one."""
    first = State()
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        for what, after in model.steps(state):
            found = acts_on_old_ledger(state, after)
            if after in came_from and found is None:
                continue
            came_from.setdefault(after, (state, what))
            found = found or violation(after)
            if found is not None and found.startswith(about):
                return len(came_from), [*_history(came_from, state), what, found]
            waiting.append(after)
    return len(came_from), []


def _history(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, what = before
        steps.append(what)
    return steps[::-1]


# --- what a step changes


def _write(state: State, what: str, hold: Hold) -> State:
    redis = state.redis
    assert redis is not None
    tip = state.writes + 1
    entry = Entry(redis.seq + 1, redis.tip, tip, what, hold)
    held, sold, keys = _moved(redis.held, redis.sold, redis.keys, what, hold)
    after = redis._replace(seq=entry.seq, tip=tip, held=held, sold=sold, keys=keys, journal=(*redis.journal, entry))
    return state._replace(redis=after, writes=tip)


def _moved(held: Holds, sold: Holds, keys: Holds, what: str, hold: Hold) -> tuple[Holds, Holds, Holds]:
    match what:
        case "reserve":
            return held | {hold}, sold, keys | {hold}
        case "confirm":
            return held - {hold}, sold | {hold}, keys
    return held - {hold}, sold, keys


def _tell(state: State, process: int, what: str, hold: Hold) -> State:
    assert state.redis is not None
    told = _saw(state, process, Position(state.redis.epoch, state.redis.seq))
    if what.startswith("confirm"):
        return told._replace(confirming=told.confirming | {(hold, state.redis.epoch)})
    return told._replace(told_held=told.told_held | {hold}) if what.startswith("reserve") else told


def _saw(state: State, process: int, seen: Position | None) -> State:
    return state._replace(seen=tuple(seen if n == process else state.seen[n] for n in PROCESSES))


def _pay(state: State, hold: Hold) -> State:
    return state._replace(paid=state.paid | {hold}, told_sold=state.told_sold | {hold})


def _commit(state: State, ledger: Ledger) -> State:
    after = ledger._replace(events=ledger.events + 1)
    return state._replace(ledger=after, mark=max(state.mark, after.events))


def _read(ledger: Ledger, entry: Entry) -> Ledger:
    held, sold, keys = _moved(ledger.held, ledger.sold, ledger.keys, entry.what, entry.hold)
    claimed = ledger.claimed - sold
    return ledger._replace(seq=entry.seq, tip=entry.tip, held=held, sold=sold, keys=keys, claimed=claimed)


def _next_entry(state: State) -> Entry | None:
    """The entry that follows what the ledger has read; not one that was decided on another history."""
    redis, ledger = state.redis, state.ledger
    if redis is None or redis.epoch != ledger.epoch:
        return None
    found = next((entry for entry in redis.journal if entry.seq == ledger.seq + 1), None)
    if found is None or found.after != ledger.tip:
        return None
    after = _read(ledger, found)
    is_possible = len(after.held | after.sold) <= TOTAL and len(after.sold | after.claimed) <= TOTAL
    return found if is_possible else None


def _unread(state: State) -> Holds:
    """What the ledger will have once it has read the journal to its end."""
    found: set[Hold] = set()
    while (entry := _next_entry(state)) is not None:
        found.add(entry.hold)
        state = state._replace(ledger=_read(state.ledger, entry))
    return frozenset(found)


def _lose(state: State, redis: Redis | None) -> State:
    """A failover may lose what the ledger has not read yet, and that an epoch was closed: that is not promised."""
    loads = frozenset(load._replace(is_back=True) for load in state.loads)
    after = state._replace(redis=redis, redis_copy=None, redis_faults=state.redis_faults + 1, loads=loads)
    return after._replace(excused=state.excused | (state.told_held - state.ledger.keys - _unread(after)))


def main() -> int:
    parser = ArgumentParser(description="Check the model in every interleaving.")
    parser.add_argument("--without", choices=sorted(GUARDS), help="a guard to switch off")
    guard = parser.parse_args().without
    if guard is not None:
        bounds, about = SHOWN_BY[guard]
        _, history = check(Model(GUARDS - {guard}, bounds), about)
        for number, step in enumerate(history, 1):
            sys.stdout.write(f"{number:>3}  {step}\n")
        return 0 if history else 1
    for name, bounds in CASES.items():
        states, history = check(Model(GUARDS, bounds))
        sys.stdout.write(f"{name}: {states:,} states, {'; '.join(history) or 'no violation'}\n")
        if history:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
