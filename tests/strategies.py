"""Commands of every kind, for Hypothesis, few enough of each to meet one another often."""

from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.stock.command import (
    Command,
    Expire,
    Extend,
    Give,
    Move,
    Provision,
    Reserve,
    Restock,
    Transition,
    Verdict,
)
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import RuleChanges, Rules
from holdfast.testing.states import MINUTE, NOW

OWNERS = ("ada", "bob", "cid", "Zoë 'quote\" 🎟")
TTLS_MS = (1_000, 5_000, MINUTE, 30 * MINUTE)
STEPS_MS = (0, 1, 999, 1_000, 4_999, MINUTE, 40 * MINUTE)

rules = st.builds(
    Rules,
    per_owner_limit=st.none() | st.integers(1, 6),
    hold_budget=st.none() | st.integers(1, 3),
    required_tier=st.none() | st.just(1),
    opens_at=st.none() | st.just(NOW + 2_000),
    ends_at=st.none() | st.just(NOW + 90 * MINUTE),
    paused=st.sampled_from([False, False, False, True]),
)
gentle_rules = st.builds(Rules, per_owner_limit=st.none() | st.integers(1, 6))


@st.composite
def reserves(draw: st.DrawFn) -> Reserve:
    quantity = draw(st.sampled_from([1, 1, 1, 2, 5]))
    return Reserve(
        "",
        draw(st.sampled_from(OWNERS)),
        quantity,
        draw(st.sampled_from([quantity, quantity, 1])),
        draw(st.sampled_from(TTLS_MS)),
        draw(st.sampled_from([None, None, "k1", "k2"])),
        draw(st.sampled_from([0, 1])),
        draw(st.sampled_from([False, False, False, True])),
    )


UNKNOWN = 20
_picks = st.integers(0, UNKNOWN).map(str)
_askers = st.sampled_from([None] * 9 + [OWNERS[0]])
moves = st.builds(Move, st.sampled_from(list(Transition)), _picks, _askers, attempt=st.sampled_from([1, 1, 1, 0, 2]))
extends = st.builds(
    Extend, _picks, st.sampled_from(TTLS_MS), _askers, st.sampled_from([30 * MINUTE, 30 * MINUTE, 5_000])
)
expires = st.builds(Expire, st.integers(0, 6))
restocks = st.builds(Restock, st.integers(-8, 8))
rule_changes = st.builds(
    RuleChanges,
    per_owner_limit=st.sampled_from([UNSET, UNSET, None, 1, 4]),
    hold_budget=st.sampled_from([UNSET, UNSET, None, 2]),
    paused=st.sampled_from([UNSET, UNSET, False, True]),
)
gives = st.builds(Give, st.sampled_from(["other", "third"]), st.integers(1, 9))
provisions = st.builds(
    Provision,
    st.integers(0, 24) | st.none(),
    st.none() | st.just(Rules()) | gentle_rules | rules,
    st.none() | rule_changes,
    st.sampled_from([False, False, True]),
    unless_in_sale=st.sampled_from([False, False, True]),
)

# What buyers do, and the same with a hand on the stock in between: rules that change too often let nothing happen.
_buying: st.SearchStrategy[Command] = st.one_of(reserves(), reserves(), moves, extends, expires)
_anything: st.SearchStrategy[Command] = st.one_of(_buying, restocks, provisions, gives)
_buying_batches = st.lists(_buying, min_size=1, max_size=8)
# Deadlines move, and then stock is wanted: what a batch has to know beforehand is most, and most easily too little.
_shuffled_batches: st.SearchStrategy[list[Command]] = st.builds(
    lambda moved, wanted: [*moved, *wanted],
    st.lists(extends | moves, min_size=1, max_size=4),
    st.lists(reserves(), min_size=1, max_size=4),
)
batches = st.one_of(_buying_batches, _buying_batches, _shuffled_batches, st.lists(_anything, min_size=1, max_size=8))
histories = st.lists(st.tuples(st.sampled_from(STEPS_MS), batches), min_size=1, max_size=10)


def opening(units: int, given_rules: Rules) -> list[Command]:
    """A pool as it is most of the time during a rush: all of it held, by many, until various moments."""
    holds = [Reserve("", OWNERS[n % len(OWNERS)], 1, 1, TTLS_MS[n % len(TTLS_MS)] + n) for n in range(units)]
    return [Provision(units), *holds, Provision(units, given_rules)]


class Namer:
    """Gives each reservation its id, and lets moves pick among those that were granted or are being asked for."""

    def __init__(self, sku_id: str) -> None:
        self._sku_id = sku_id
        self._count = 0
        self._ids: list[str] = []

    def name(self, batch: list[Command]) -> list[Command]:
        return [self._name(command) for command in batch]

    def learn(self, batch: list[Command], verdicts: list[Verdict]) -> None:
        """Forget the ids that were asked for in vain."""
        for command, verdict in zip(batch, verdicts, strict=True):
            if isinstance(command, Reserve) and verdict.outcome is not Outcome.RESERVED:
                self._ids.remove(command.reservation_id)

    def _name(self, command: Command) -> Command:
        if isinstance(command, Reserve):
            self._count += 1
            self._ids.append(f"rsv_{self._count:032}_{self._sku_id}")
            return replace(command, reservation_id=self._ids[-1])
        if isinstance(command, Move | Extend):
            pick = int(command.reservation_id)
            known = self._ids[-1 - pick % len(self._ids)] if self._ids and pick < UNKNOWN else "rsv_unknown"
            return replace(command, reservation_id=known)
        return command
