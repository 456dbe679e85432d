"""Every outcome, and which one is given when several apply."""

from collections.abc import Callable
from itertools import combinations

import pytest

from holdfast.domain.stock.command import Command, Extend, Move, Reserve, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Remembered, State
from holdfast.testing.outcomes import EVERY_OUTCOME, RELEASED
from holdfast.testing.states import MINUTE, NOW, SKU, hold, reserve, state_of


def only_verdict(state: State, command: Command) -> Verdict:
    [verdict] = decide(state, [command], NOW).verdicts
    return verdict


def test_the_table_covers_every_outcome() -> None:
    assert list(EVERY_OUTCOME) == list(Outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_is_given_where_it_belongs(outcome: Outcome) -> None:
    state, command = EVERY_OUTCOME[outcome]
    assert only_verdict(state, command).outcome is outcome


@pytest.mark.parametrize("outcome", Outcome)
def test_a_refusal_changes_nothing_and_a_success_says_so(outcome: Outcome) -> None:
    state, command = EVERY_OUTCOME[outcome]
    changes = decide(state, [command], NOW).changes
    changed = bool(changes.pool or changes.created or changes.moved or changes.remembered or changes.events)
    assert changed is (outcome in {Outcome.RESERVED, Outcome.MOVED})
    assert outcome.is_success is (outcome in {Outcome.RESERVED, Outcome.MOVED, Outcome.REPLAYED, Outcome.ALREADY})


def test_every_outcome_says_whether_it_is_transient() -> None:
    transient = {outcome for outcome in Outcome if outcome.is_transient}
    assert transient == {
        Outcome.NOT_READY,
        Outcome.NOT_OPEN,
        Outcome.PAUSED,
        Outcome.INSUFFICIENT,
        Outcome.ALL_HELD,
    }


# --- precedence: each reason a reservation can be refused for, as something done to a world where it would be granted.


class Scenario:
    def __init__(self) -> None:
        self.rules = Rules()
        self.exists = self.ready = True
        self.total = 100
        self.remembered: list[Remembered] = []
        self.others: list[tuple[int, Status]] = []

    def outcome(self) -> Outcome:
        command = Reserve("new", "ada", 2, 2, MINUTE, "k")
        others = [hold(f"o{i}", "bob", units, status=status) for i, (units, status) in enumerate(self.others)]
        state = state_of(self.total, RELEASED, *others, rules=self.rules, ready=self.ready, remembered=self.remembered)
        if not self.exists:
            state = State(SKU, None, {}, state.remembered)
        return only_verdict(state, command).outcome

    def demand(self, **more: object) -> None:
        known = {name: getattr(self.rules, name) for name in self.rules.__struct_fields__}
        self.rules = Rules(**(known | more))

    def remember(self, quantity: int) -> None:
        first = hold("first", "ada", quantity)
        self.remembered = [Remembered("ada", "k", f"{quantity}/2/{MINUTE}", first)]

    def take_all_but(self, left: int, status: Status) -> None:
        self.others = [(self.total - left, status)]


REASONS: dict[Outcome, Callable[[Scenario], object]] = {
    Outcome.REPLAYED: lambda s: s.remember(2),
    Outcome.KEY_REUSED: lambda s: s.remember(3),
    Outcome.POOL_NOT_FOUND: lambda s: setattr(s, "exists", False),
    Outcome.NOT_READY: lambda s: setattr(s, "ready", False),
    Outcome.NOT_OPEN: lambda s: s.demand(opens_at=NOW + 1),
    Outcome.PAUSED: lambda s: s.demand(paused=True),
    Outcome.ENDED: lambda s: s.demand(ends_at=NOW),
    Outcome.TIER_REQUIRED: lambda s: s.demand(required_tier=1),
    Outcome.BUYER_LIMIT: lambda s: s.demand(per_owner_limit=1),
    Outcome.HOLD_BUDGET: lambda s: s.demand(hold_budget=1),
    Outcome.INSUFFICIENT: lambda s: s.take_all_but(1, Status.ACTIVE),
    Outcome.ALL_HELD: lambda s: s.take_all_but(0, Status.ACTIVE),
    Outcome.SOLD_OUT: lambda s: s.take_all_but(0, Status.CONFIRMED),
    Outcome.RESERVED: lambda _: None,
}
EXCLUSIVE = [{Outcome.REPLAYED, Outcome.KEY_REUSED}, {Outcome.INSUFFICIENT, Outcome.ALL_HELD, Outcome.SOLD_OUT}]
PAIRS = [pair for pair in combinations(REASONS, 2) if not any(set(pair) <= group for group in EXCLUSIVE)]


def test_the_reasons_are_all_that_a_reservation_can_be_told() -> None:
    moves_only = {Outcome.NOT_FOUND, Outcome.ALREADY, Outcome.ILLEGAL, Outcome.EXTENSION_LIMIT, Outcome.MOVED}
    assert list(REASONS) == [outcome for outcome in Outcome if outcome not in moves_only]


@pytest.mark.parametrize(("earlier", "later"), PAIRS)
def test_of_two_reasons_the_one_that_stands_first_is_given(earlier: Outcome, later: Outcome) -> None:
    scenario = Scenario()
    REASONS[later](scenario)
    REASONS[earlier](scenario)
    assert scenario.outcome() is earlier


def test_a_command_other_than_provision_finds_no_pool_where_there_is_none() -> None:
    for command in (Restock(1), Extend("a", 1), Move(Transition.CONFIRM, "a")):
        assert only_verdict(State(SKU), command) == Verdict(Outcome.POOL_NOT_FOUND)


def test_a_sale_that_is_not_open_says_when_it_opens() -> None:
    state = state_of(5, rules=Rules(opens_at=NOW + MINUTE))
    assert only_verdict(state, reserve()) == Verdict(Outcome.NOT_OPEN, opens_at=NOW + MINUTE)
    [verdict] = decide(state, [reserve()], NOW + MINUTE).verdicts
    assert verdict.outcome is Outcome.RESERVED


def test_rules_bind_new_reservations_and_leave_moves_alone() -> None:
    state = state_of(5, hold("a"), rules=Rules(paused=True, ends_at=NOW, required_tier=9))
    assert only_verdict(state, Move(Transition.CONFIRM, "a")).outcome is Outcome.MOVED


def test_a_tier_at_or_above_the_required_one_is_let_in() -> None:
    state = state_of(5, rules=Rules(required_tier=2))
    answers = [only_verdict(state, Reserve("n", "ada", 1, 1, tier=tier)).outcome for tier in (1, 2, 3)]
    assert answers == [Outcome.TIER_REQUIRED, Outcome.RESERVED, Outcome.RESERVED]
