"""What an attempt to reserve is given: how many units, whose, and when it may hope again."""

from copy import deepcopy

import pytest

from holdfast.domain.stock.command import Command, Expire, Extend, Move, Provision, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Remembered, State
from holdfast.testing.states import MINUTE, NOW, SKU, hold, reserve, state_of

MOVED, RESERVED = Outcome.MOVED, Outcome.RESERVED


def outcomes(verdicts: list[Verdict]) -> list[Outcome]:
    return [verdict.outcome for verdict in verdicts]


def test_a_grant_says_what_is_held_for_whom_and_until_when() -> None:
    decision = decide(state_of(5), [reserve("r", "ada", 2, key="k")], NOW)
    granted = Reservation("r", SKU, "ada", 2, Status.ACTIVE, NOW, NOW + MINUTE)
    assert decision.verdicts == [Verdict(RESERVED, granted)]
    assert decision.changes.created == [granted]
    assert [e.type for e in decision.changes.events] == ["reservation.created"]
    assert decision.changes.pool is not None
    assert (decision.changes.pool.available, decision.changes.pool.held) == (3, 2)


def test_a_batch_is_decided_in_order() -> None:
    batch = [reserve("a", quantity=2), reserve("b", quantity=2), reserve("c", quantity=1), reserve("d")]
    verdicts = decide(state_of(3), batch, NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, Outcome.INSUFFICIENT, RESERVED, Outcome.ALL_HELD]


# --- partial fill


@pytest.mark.parametrize(("free", "granted"), [(5, 4), (4, 4), (3, 3), (2, 2)])
def test_a_partial_fill_takes_what_is_there(free: int, granted: int) -> None:
    [verdict] = decide(state_of(free), [reserve(quantity=4, at_least=2)], NOW).verdicts
    assert verdict.reservation is not None
    assert verdict.reservation.quantity == granted


def test_a_partial_fill_is_refused_below_its_least_and_told_what_is_there() -> None:
    [verdict] = decide(state_of(1), [reserve(quantity=4, at_least=2)], NOW).verdicts
    assert verdict == Verdict(Outcome.INSUFFICIENT, available=1)


def test_a_partial_fill_is_cut_to_what_the_owner_may_still_have() -> None:
    state = state_of(9, hold("a", "ada", 2), rules=Rules(per_owner_limit=3))
    [verdict] = decide(state, [reserve(quantity=4, at_least=1)], NOW).verdicts
    assert verdict.reservation is not None
    assert verdict.reservation.quantity == 1


def test_a_partial_fill_returns_due_units_before_it_settles_for_less() -> None:
    state = state_of(4, hold("due", "bob", 3, due_in=0))
    [verdict] = decide(state, [reserve(quantity=4, at_least=1)], NOW).verdicts
    assert verdict.reservation is not None
    assert verdict.reservation.quantity == 4


# --- per-owner limit


@pytest.mark.parametrize("status", Status)
def test_the_limit_counts_what_is_held_being_paid_and_bought(status: Status) -> None:
    state = state_of(9, hold("a", "ada", 2, status=status), rules=Rules(per_owner_limit=2))
    counts = status in {Status.ACTIVE, Status.SETTLING, Status.CONFIRMED}
    [verdict] = decide(state, [reserve()], NOW).verdicts
    assert verdict.outcome is (Outcome.BUYER_LIMIT if counts else RESERVED)


def test_the_limit_is_per_owner_and_holds_within_a_batch() -> None:
    batch = [reserve("a", "ada"), reserve("b", "ada"), reserve("c", "bob"), reserve("d", "ada")]
    verdicts = decide(state_of(9, rules=Rules(per_owner_limit=2)), batch, NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, RESERVED, RESERVED, Outcome.BUYER_LIMIT]


def test_what_an_owner_gives_back_they_may_take_again_in_the_same_batch() -> None:
    batch: list[Command] = [reserve("a"), reserve("b"), Move(Transition.CANCEL, "a"), reserve("c")]
    verdicts = decide(state_of(9, rules=Rules(per_owner_limit=1)), batch, NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, Outcome.BUYER_LIMIT, MOVED, RESERVED]


def test_an_owners_overdue_holds_never_stand_in_their_way() -> None:
    mine = [hold("a", "ada", 2, due_in=0), hold("b", "ada", due_in=-MINUTE), hold("c", "bob", due_in=0)]
    decision = decide(state_of(9, *mine, rules=Rules(per_owner_limit=3)), [reserve(quantity=3)], NOW)
    assert outcomes(decision.verdicts) == [RESERVED]
    assert {(r.reservation_id, r.status) for r in decision.changes.moved} == {
        ("a", Status.EXPIRED),
        ("b", Status.EXPIRED),
    }


def test_a_limit_set_in_a_batch_counts_what_the_batch_granted_before() -> None:
    batch: list[Command] = [reserve("a"), Provision(9, Rules(per_owner_limit=1)), reserve("b")]
    assert outcomes(decide(state_of(9), batch, NOW).verdicts) == [RESERVED, MOVED, Outcome.BUYER_LIMIT]


# --- hold budget


@pytest.mark.parametrize("status", Status)
def test_the_budget_counts_holds_let_go_and_not_refused_payments(status: Status) -> None:
    state = state_of(9, hold("a", "ada", status=status), rules=Rules(hold_budget=1))
    counts = status in {Status.CANCELLED, Status.EXPIRED}
    [verdict] = decide(state, [reserve()], NOW).verdicts
    assert verdict.outcome is (Outcome.HOLD_BUDGET if counts else RESERVED)


def test_letting_go_within_a_batch_spends_the_budget() -> None:
    batch: list[Command] = [reserve("a"), Move(Transition.CANCEL, "a"), reserve("b"), reserve("c", "bob")]
    verdicts = decide(state_of(9, rules=Rules(hold_budget=1)), batch, NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, MOVED, Outcome.HOLD_BUDGET, RESERVED]


@pytest.mark.parametrize("came_by", [True, False], ids=["expirer came by", "expirer not yet there"])
def test_an_overdue_hold_spends_the_budget_whether_or_not_the_expirer_came_by(came_by: bool) -> None:
    state = state_of(9, hold("a", "ada", due_in=0), rules=Rules(hold_budget=1))
    batch: list[Command] = [Expire(10), reserve()] if came_by else [reserve()]
    assert decide(state, batch, NOW).verdicts[-1].outcome is Outcome.HOLD_BUDGET


# --- idempotency


def test_a_repeat_gets_the_first_answer_and_takes_nothing() -> None:
    first, repeat = reserve("a", key="k"), reserve("b", key="k")
    decision = decide(state_of(9), [first, repeat], NOW)
    assert outcomes(decision.verdicts) == [RESERVED, Outcome.REPLAYED]
    assert decision.verdicts[0].reservation == decision.verdicts[1].reservation
    assert len(decision.changes.created) == len(decision.changes.remembered) == 1


@pytest.mark.parametrize(
    "later", [Move(Transition.CANCEL, "a"), Extend("a", 2 * MINUTE), Move(Transition.CONFIRM, "a")]
)
def test_a_repeat_gets_the_first_answer_whatever_became_of_it(later: Move | Extend) -> None:
    verdicts = decide(state_of(9), [reserve("a", key="k"), later, reserve("b", key="k")], NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, MOVED, Outcome.REPLAYED]
    assert verdicts[2].reservation == verdicts[0].reservation


def test_a_repeat_is_answered_even_after_the_pool_is_sold_out_or_closed() -> None:
    first = hold("a", "ada", status=Status.CONFIRMED)
    remembered = Remembered("ada", "k", reserve().fingerprint, first)
    for rules in (Rules(), Rules(paused=True), Rules(ends_at=NOW), Rules(per_owner_limit=1)):
        state = state_of(1, first, rules=rules, remembered=[remembered])
        assert outcomes(decide(state, [reserve(key="k")], NOW).verdicts) == [Outcome.REPLAYED]


@pytest.mark.parametrize(
    "other",
    [
        reserve("b", key="k", quantity=3),
        reserve("b", key="k", quantity=2, at_least=1),
        reserve("b", key="k", quantity=2, ttl_ms=1),
    ],
)
def test_a_key_is_not_used_for_another_request(other: Reserve) -> None:
    verdicts = decide(state_of(9), [reserve("a", quantity=2, key="k"), other], NOW).verdicts
    assert verdicts[1] == Verdict(Outcome.KEY_REUSED)


def test_keys_of_two_owners_do_not_meet() -> None:
    verdicts = decide(state_of(9), [reserve("a", "ada", key="k"), reserve("b", "bob", key="k")], NOW).verdicts
    assert outcomes(verdicts) == [RESERVED, RESERVED]


def test_a_refusal_is_not_remembered_so_the_same_key_may_win_later() -> None:
    batch: list[Command] = [reserve("a", key="k"), Move(Transition.CANCEL, "theirs"), reserve("b", key="k")]
    decision = decide(state_of(1, hold("theirs")), batch, NOW)
    assert outcomes(decision.verdicts) == [Outcome.ALL_HELD, MOVED, RESERVED]
    assert [first.reservation.reservation_id for first in decision.changes.remembered] == ["b"]


# --- due reservations


def test_due_units_reach_the_next_buyer_in_the_same_batch() -> None:
    decision = decide(state_of(1, hold("due", due_in=0)), [reserve("new")], NOW)
    assert outcomes(decision.verdicts) == [RESERVED]
    assert [e.type for e in decision.changes.events] == ["reservation.expired", "reservation.created"]


def test_due_units_return_earliest_first_and_no_more_than_needed() -> None:
    due = [hold("late", due_in=-1), hold("early", due_in=-3), hold("middle", due_in=-2), hold("live", due_in=1)]
    decision = decide(state_of(4, *due), [reserve(quantity=2)], NOW)
    assert [r.reservation_id for r in decision.changes.moved] == ["early", "middle"]


def test_of_equal_deadlines_the_lower_id_returns_first() -> None:
    due = [hold("c", due_in=0), hold("a", due_in=0), hold("b", due_in=0)]
    decision = decide(state_of(3, *due), [reserve()], NOW)
    assert [r.reservation_id for r in decision.changes.moved] == ["a"]


def test_nothing_is_returned_while_there_is_enough() -> None:
    decision = decide(state_of(2, hold("due", due_in=0)), [reserve()], NOW)
    assert not decision.changes.moved


def test_a_refusal_keeps_what_it_returned_for_those_who_want_less() -> None:
    verdicts = decide(state_of(1, hold("due", due_in=0)), [reserve("a", quantity=2), reserve("b")], NOW).verdicts
    assert outcomes(verdicts) == [Outcome.INSUFFICIENT, RESERVED]
    assert verdicts[0].available == 1


def test_a_hold_extended_in_the_batch_returns_at_its_new_deadline() -> None:
    state = state_of(2, hold("a", due_in=10), hold("b", due_in=20))
    [_, refused] = decide(state, [Extend("a", MINUTE), reserve()], NOW).verdicts
    assert refused.next_return_at == NOW + 20


@pytest.mark.parametrize(("limit", "units"), [(0, 0), (1, 2), (2, 5), (9, 5)])
def test_expire_returns_up_to_its_limit_earliest_first(limit: int, units: int) -> None:
    state = state_of(9, hold("b", "bob", 3, due_in=0), hold("a", "ada", 2, due_in=-1), hold("c", "cid", 4, due_in=1))
    decision = decide(state, [Expire(limit)], NOW)
    assert decision.verdicts == [Verdict(MOVED, units=units)]
    assert [r.reservation_id for r in decision.changes.moved] == ["a", "b"][:limit]


# --- hope


def test_all_held_tells_when_the_next_unit_may_come_back() -> None:
    state = state_of(2, hold("a", due_in=5_000), hold("b", due_in=2_000))
    assert decide(state, [reserve()], NOW).verdicts == [
        Verdict(Outcome.ALL_HELD, available=0, next_return_at=NOW + 2_000, retry_after_ms=2_000)
    ]


def test_units_being_paid_for_have_no_deadline_to_hope_for() -> None:
    state = state_of(1, hold("a", status=Status.SETTLING))
    assert decide(state, [reserve()], NOW).verdicts == [Verdict(Outcome.ALL_HELD, available=0)]


def test_sold_out_is_final_and_gives_no_hope() -> None:
    state = state_of(1, hold("a", status=Status.CONFIRMED))
    assert decide(state, [reserve()], NOW).verdicts == [Verdict(Outcome.SOLD_OUT, available=0)]


def test_deciding_leaves_its_input_as_it_was() -> None:
    rules = Rules(per_owner_limit=3)
    first = Remembered("ada", "k", "f", hold("a", "ada"))
    state = state_of(4, hold("a", "ada"), hold("b", due_in=0), rules=rules, remembered=[first])
    before: State = deepcopy(state)
    batch: list[Command] = [
        reserve(quantity=3, key="j"),
        Move(Transition.CANCEL, "a"),
        Extend("b", 1),
        Expire(9),
        reserve("z"),
    ]
    decide(state, batch, NOW)
    assert state == before
