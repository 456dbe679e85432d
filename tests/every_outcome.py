"""For every outcome a world and a command that lead to it, for the rulebook and for the engines alike."""

from holdfast.domain.command import Command, Extend, Move, Restock, Transition
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Rules
from holdfast.domain.reservation import MAX_HOLD_MS, Status
from holdfast.domain.state import Remembered, State
from worlds import NOW, SKU, hold, reserve, world

_FIRST = Remembered("ada", "k", reserve(key="k").fingerprint, hold("first", "ada"))
_SOLD = hold("sold", status=Status.CONFIRMED)
LET_GO = hold("gone", "ada", status=Status.CANCELLED)

EVERY_OUTCOME: dict[Outcome, tuple[State, Command]] = {
    Outcome.REPLAYED: (world(5, hold("first", "ada"), remembered=[_FIRST]), reserve(key="k")),
    Outcome.KEY_REUSED: (world(5, hold("first", "ada"), remembered=[_FIRST]), reserve(key="k", quantity=2)),
    Outcome.POOL_NOT_FOUND: (State(SKU), reserve()),
    Outcome.NOT_READY: (world(5, ready=False), reserve()),
    Outcome.NOT_OPEN: (world(5, rules=Rules(opens_at=NOW + 1)), reserve()),
    Outcome.PAUSED: (world(5, rules=Rules(paused=True)), reserve()),
    Outcome.ENDED: (world(5, rules=Rules(ends_at=NOW)), reserve()),
    Outcome.TIER_REQUIRED: (world(5, rules=Rules(required_tier=1)), reserve()),
    Outcome.BUYER_LIMIT: (world(5, rules=Rules(per_owner_limit=1)), reserve(quantity=2)),
    Outcome.HOLD_BUDGET: (world(5, LET_GO, rules=Rules(hold_budget=1)), reserve()),
    Outcome.INSUFFICIENT: (world(5), reserve(quantity=6)),
    Outcome.ALL_HELD: (world(1, hold("a")), reserve()),
    Outcome.SOLD_OUT: (world(1, _SOLD), reserve()),
    Outcome.RESERVED: (world(5), reserve()),
    Outcome.NOT_FOUND: (world(5), Move(Transition.CANCEL, "unknown")),
    Outcome.ALREADY: (world(5, _SOLD), Move(Transition.CONFIRM, "sold")),
    Outcome.ILLEGAL: (world(5, _SOLD), Move(Transition.CANCEL, "sold")),
    Outcome.EXTENSION_LIMIT: (world(5, hold("a")), Extend("a", MAX_HOLD_MS)),
    Outcome.MOVED: (world(5), Restock(1)),
}
