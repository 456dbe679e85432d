"""For every outcome, a state and a command that lead to it."""

from holdfast.domain.stock.command import Command, Extend, Move, Restock, Transition
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.state import Remembered, State
from holdfast.testing.states import NOW, SKU, hold, reserve, state_of

_FIRST = Remembered("ada", "k", reserve(key="k").fingerprint, hold("first", "ada"))
_SOLD = hold("sold", status=Status.CONFIRMED)
RELEASED = hold("gone", "ada", status=Status.CANCELLED)

EVERY_OUTCOME: dict[Outcome, tuple[State, Command]] = {
    Outcome.REPLAYED: (state_of(5, hold("first", "ada"), remembered=[_FIRST]), reserve(key="k")),
    Outcome.KEY_REUSED: (state_of(5, hold("first", "ada"), remembered=[_FIRST]), reserve(key="k", quantity=2)),
    Outcome.POOL_NOT_FOUND: (State(SKU), reserve()),
    Outcome.NOT_READY: (state_of(5, ready=False), reserve()),
    Outcome.NOT_OPEN: (state_of(5, rules=Rules(opens_at=NOW + 1)), reserve()),
    Outcome.PAUSED: (state_of(5, rules=Rules(paused=True)), reserve()),
    Outcome.ENDED: (state_of(5, rules=Rules(ends_at=NOW)), reserve()),
    Outcome.TIER_REQUIRED: (state_of(5, rules=Rules(required_tier=1)), reserve()),
    Outcome.BUYER_LIMIT: (state_of(5, rules=Rules(per_owner_limit=1)), reserve(quantity=2)),
    Outcome.HOLD_BUDGET: (state_of(5, RELEASED, rules=Rules(hold_budget=1)), reserve()),
    Outcome.INSUFFICIENT: (state_of(5), reserve(quantity=6)),
    Outcome.ALL_HELD: (state_of(1, hold("a")), reserve()),
    Outcome.SOLD_OUT: (state_of(1, _SOLD), reserve()),
    Outcome.RESERVED: (state_of(5), reserve()),
    Outcome.NOT_FOUND: (state_of(5), Move(Transition.CANCEL, "unknown")),
    Outcome.ALREADY: (state_of(5, _SOLD), Move(Transition.CONFIRM, "sold")),
    Outcome.ILLEGAL: (state_of(5, _SOLD), Move(Transition.CANCEL, "sold")),
    Outcome.EXTENSION_LIMIT: (state_of(5, hold("a", due_in=MAX_HOLD_MS)), Extend("a", 1)),
    Outcome.MOVED: (state_of(5), Restock(1)),
}
