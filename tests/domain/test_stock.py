"""Making pools, changing their stock, and what the world is told about it."""

import pytest
from msgspec.structs import replace

from holdfast.domain.stock.command import Command, Move, Provision, Restock, Transition, Verdict
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Availability, Pool, RuleChanges, Rules
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Changes, Event, State
from holdfast.testing.states import NOW, SKU, hold, reserve, state_of

LIMIT = Rules(per_owner_limit=2)


def events_of(state: State, *commands: Command) -> list[tuple[str, int | None]]:
    return [(e.type, e.quantity) for e in decide(state, commands, NOW).changes.events]


def test_provision_makes_a_pool() -> None:
    decision = decide(State(SKU), [Provision(5, LIMIT)], NOW)
    pool = Pool(SKU, 5, rules=LIMIT)
    assert decision.verdicts == [Verdict(Outcome.MOVED, pool=pool)]
    assert decision.changes.pool == pool
    assert decision.changes.events == [Event("pool.provisioned", NOW, quantity=5)]


def test_a_pool_can_be_made_and_sold_from_in_one_batch() -> None:
    verdicts = decide(State(SKU), [reserve("a"), Provision(1), reserve("b")], NOW).verdicts
    assert [v.outcome for v in verdicts] == [Outcome.POOL_NOT_FOUND, Outcome.MOVED, Outcome.RESERVED]


def test_an_empty_pool_is_a_pool_that_is_sold_out() -> None:
    verdicts = decide(State(SKU), [Provision(0), reserve()], NOW).verdicts
    assert [v.outcome for v in verdicts] == [Outcome.MOVED, Outcome.SOLD_OUT]


def test_provision_sets_total_and_rules_and_keeps_what_is_committed() -> None:
    state = state_of(5, hold("a", quantity=2), hold("b", status=Status.CONFIRMED))
    [verdict] = decide(state, [Provision(8, LIMIT)], NOW).verdicts
    assert verdict.pool == Pool(SKU, 8, held=2, sold=1, active_reservations=1, rules=LIMIT)


@pytest.mark.parametrize("command", [Restock(-2), Provision(3)])
def test_a_change_of_stock_alone_keeps_the_rules(command: Command) -> None:
    [verdict] = decide(state_of(5, rules=LIMIT), [command], NOW).verdicts
    assert verdict.pool == Pool(SKU, 3, rules=LIMIT)


def test_rules_are_lifted_by_rules_that_ask_nothing() -> None:
    [verdict] = decide(state_of(5, rules=LIMIT), [Provision(5, Rules())], NOW).verdicts
    assert verdict.pool == Pool(SKU, 5)


EVERY_RULE = Rules(3, 4, 1, NOW - 1, NOW + 1, paused=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (RuleChanges(), EVERY_RULE),
        (RuleChanges(per_owner_limit=9), replace(EVERY_RULE, per_owner_limit=9)),
        (RuleChanges(per_owner_limit=None), replace(EVERY_RULE, per_owner_limit=None)),
        (RuleChanges(hold_budget=None, paused=False), replace(EVERY_RULE, hold_budget=None, paused=False)),
        (RuleChanges(None, None, None, None, None, paused=False), Rules()),
    ],
)
def test_a_change_of_some_rules_keeps_the_others(changes: RuleChanges, expected: Rules) -> None:
    decision = decide(state_of(5, rules=EVERY_RULE), [Provision(6, changes=changes)], NOW)
    assert decision.verdicts == [Verdict(Outcome.MOVED, pool=Pool(SKU, 6, rules=expected))]


def test_changes_to_the_rules_of_a_new_pool_are_changes_to_none() -> None:
    [verdict] = decide(State(SKU), [Provision(5, changes=RuleChanges(hold_budget=2))], NOW).verdicts
    assert verdict.pool == Pool(SKU, 5, rules=Rules(hold_budget=2))


def test_changes_come_on_top_of_rules_given_with_them() -> None:
    command = Provision(5, LIMIT, RuleChanges(paused=True))
    [verdict] = decide(state_of(5, rules=EVERY_RULE), [command], NOW).verdicts
    assert verdict.pool == Pool(SKU, 5, rules=Rules(per_owner_limit=2, paused=True))


def test_every_rule_can_be_changed_alone() -> None:
    assert RuleChanges.__struct_fields__ == Rules.__struct_fields__


def test_a_limit_set_by_a_change_counts_what_came_before_it() -> None:
    state = state_of(5, hold("a", "ada", quantity=2))
    verdicts = decide(state, [Provision(5, changes=RuleChanges(per_owner_limit=2)), reserve("b", "ada")], NOW).verdicts
    assert [v.outcome for v in verdicts] == [Outcome.MOVED, Outcome.BUYER_LIMIT]


@pytest.mark.parametrize("command", [Provision(9, LIMIT, only_if_missing=True), Provision(0, only_if_missing=True)])
def test_a_pool_that_is_only_made_if_missing_is_left_as_it_is(command: Provision) -> None:
    state = state_of(5, hold("a", quantity=2), hold("due", due_in=-1), rules=Rules(hold_budget=1))
    decision = decide(state, [command], NOW)
    assert decision.verdicts == [Verdict(Outcome.ALREADY, pool=state.pool)]
    assert decision.changes == Changes()


def test_of_two_who_make_a_pool_if_missing_the_first_does() -> None:
    commands = [Provision(units, only_if_missing=True) for units in (5, 9)]
    verdicts = decide(State(SKU), commands, NOW).verdicts
    pool = Pool(SKU, 5)
    assert verdicts == [Verdict(Outcome.MOVED, pool=pool), Verdict(Outcome.ALREADY, pool=pool)]


@pytest.mark.parametrize("command", [Provision(2), Restock(-3)])
def test_stock_cannot_fall_below_what_is_committed(command: Command) -> None:
    state = state_of(5, hold("a", quantity=2), hold("b", status=Status.CONFIRMED))
    decision = decide(state, [command], NOW)
    assert decision.verdicts == [Verdict(Outcome.INSUFFICIENT, pool=state.pool, available=2)]
    assert decision.changes.pool is None


@pytest.mark.parametrize("command", [Provision(1), Restock(-2)])
def test_due_units_are_returned_before_a_smaller_stock_is_refused(command: Command) -> None:
    state = state_of(3, hold("a", due_in=0), hold("b", due_in=-1), hold("c"))
    decision = decide(state, [command], NOW)
    assert [v.outcome for v in decision.verdicts] == [Outcome.MOVED]
    assert [r.reservation_id for r in decision.changes.moved] == ["b", "a"]


def test_taking_more_than_there_is_leaves_the_pool_as_it_was() -> None:
    [verdict] = decide(state_of(5), [Restock(-6)], NOW).verdicts
    assert (verdict.outcome, verdict.available) == (Outcome.INSUFFICIENT, 5)


@pytest.mark.parametrize("command", [Provision(MAX_TOTAL_UNITS + 1), Restock(MAX_TOTAL_UNITS)])
def test_a_pool_has_a_largest_size(command: Command) -> None:
    state = state_of(1)
    assert decide(state, [command], NOW).verdicts == [Verdict(Outcome.ILLEGAL, pool=state.pool)]
    assert decide(state, [Provision(MAX_TOTAL_UNITS)], NOW).verdicts[0].outcome is Outcome.MOVED


def test_changing_the_stock_is_recorded_with_the_difference() -> None:
    assert events_of(state_of(5), Restock(3), Provision(2)) == [("pool.restocked", 3), ("pool.provisioned", -6)]


def test_setting_what_is_already_so_records_nothing() -> None:
    assert events_of(state_of(5), Provision(5), Restock(0), Provision(5, LIMIT)) == []


# --- what the world is told


def test_selling_the_last_unit_tells_that_the_pool_is_sold_out() -> None:
    state = state_of(2, hold("a"), hold("b", status=Status.CONFIRMED))
    confirm = Move(Transition.CONFIRM, "a")
    assert events_of(state, confirm) == [("reservation.confirmed", 1), ("pool.sold_out", 0)]


def test_holding_the_last_unit_is_not_sold_out() -> None:
    assert events_of(state_of(1), reserve()) == [("reservation.created", 1)]


def test_units_that_come_back_to_an_empty_pool_are_told() -> None:
    state = state_of(2, hold("a", quantity=2))
    cancel = Move(Transition.CANCEL, "a")
    assert events_of(state, cancel) == [("reservation.cancelled", 2), ("pool.returned", 2)]


def test_units_that_come_back_to_a_pool_that_had_some_are_not_told() -> None:
    assert events_of(state_of(3, hold("a")), Move(Transition.CANCEL, "a")) == [("reservation.cancelled", 1)]


def test_units_that_came_back_and_were_taken_in_one_batch_are_not_told() -> None:
    state = state_of(1, hold("a"))
    told = events_of(state, Move(Transition.CANCEL, "a"), reserve("b"))
    assert told == [("reservation.cancelled", 1), ("reservation.created", 1)]


def test_restocking_a_sold_out_pool_tells_that_there_are_units_again() -> None:
    state = state_of(1, hold("a", status=Status.CONFIRMED))
    assert events_of(state, Restock(2)) == [("pool.restocked", 2), ("pool.returned", 2)]


@pytest.mark.parametrize(
    ("total", "held", "sold", "expected"),
    [
        (3, 1, 1, Availability.AVAILABLE),
        (2, 1, 1, Availability.ALL_HELD),
        (2, 0, 2, Availability.SOLD_OUT),
        (0, 0, 0, Availability.SOLD_OUT),
    ],
)
def test_a_pool_says_what_can_be_had(total: int, held: int, sold: int, expected: Availability) -> None:
    assert Pool(SKU, total, held, sold).availability is expected
