"""The state machine: every status meets every command."""

import pytest

from holdfast.domain.stock.command import Command, Extend, Move, Transition, Verdict
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.testing.states import MINUTE, NOW, hold, state_of

_TABLE = """
              settle   confirm  fail     cancel   reopen   extend
    active    moved    moved    illegal  moved    already  moved
    settling  already  moved    moved    illegal  moved    illegal
    confirmed illegal  already  illegal  illegal  illegal  illegal
    failed    illegal  illegal  already  illegal  illegal  illegal
    cancelled illegal  illegal  illegal  already  illegal  illegal
    expired   illegal  illegal  illegal  illegal  illegal  illegal
"""
_COLUMNS, *_ROWS = [line.split() for line in _TABLE.strip().splitlines()]
EXPECTED = {
    (Status(status), name): Outcome(outcome)
    for status, *outcomes in _ROWS
    for name, outcome in zip(_COLUMNS, outcomes, strict=True)
}
TARGETS = {
    "settle": Status.SETTLING,
    "confirm": Status.CONFIRMED,
    "fail": Status.FAILED,
    "cancel": Status.CANCELLED,
    "reopen": Status.ACTIVE,
    "extend": Status.ACTIVE,
}
# What each status counts as: units held, units sold, and whether it is an active reservation.
COUNTS = {Status.ACTIVE: (3, 0, 1), Status.SETTLING: (3, 0, 0), Status.CONFIRMED: (0, 3, 0)}


def command_named(name: str, reservation_id: str, owner_id: str | None = None) -> Command:
    if name == "extend":
        return Extend(reservation_id, 2 * MINUTE, owner_id)
    return Move(Transition(name), reservation_id, owner_id, attempt=1)


def test_the_table_covers_every_status_and_every_command() -> None:
    assert EXPECTED.keys() == {(status, name) for status in Status for name in TARGETS}
    assert set(TARGETS) == {*Transition, "extend"}


@pytest.mark.parametrize(("status", "name"), EXPECTED)
def test_each_status_answers_each_command_as_the_table_says(status: Status, name: str) -> None:
    before = hold("a", "ada", 3, status=status)
    decision = decide(state_of(10, before), [command_named(name, "a")], NOW)
    [verdict] = decision.verdicts
    assert verdict.outcome is EXPECTED[status, name]
    assert verdict.reservation is not None
    moved = verdict.outcome is Outcome.MOVED
    assert verdict.reservation.status is (TARGETS[name] if moved else status)
    assert decision.changes.moved == ([verdict.reservation] if moved else [])


@pytest.mark.parametrize(("status", "name"), EXPECTED)
def test_units_go_where_the_reservation_goes(status: Status, name: str) -> None:
    before = state_of(10, hold("a", "ada", 3, status=status))
    decision = decide(before, [command_named(name, "a")], NOW)
    pool, reservation = decision.changes.pool or before.pool, decision.verdicts[0].reservation
    assert pool is not None
    assert reservation is not None
    assert (pool.held, pool.sold, pool.active_reservations) == COUNTS.get(reservation.status, (0, 0, 0))
    assert pool.available == 10 - pool.held - pool.sold


@pytest.mark.parametrize("name", TARGETS)
def test_an_overdue_hold_is_expired_when_somebody_moves_it(name: str) -> None:
    decision = decide(state_of(10, hold("a", due_in=0)), [command_named(name, "a")], NOW)
    [verdict] = decision.verdicts
    assert verdict.outcome is Outcome.ILLEGAL
    assert [r.status for r in decision.changes.moved] == [Status.EXPIRED]
    assert [e.type for e in decision.changes.events] == ["reservation.expired"]


@pytest.mark.parametrize("name", TARGETS)
def test_a_hold_can_be_moved_until_the_last_millisecond(name: str) -> None:
    [verdict] = decide(state_of(10, hold("a", due_in=1)), [command_named(name, "a")], NOW).verdicts
    assert verdict.outcome is EXPECTED[Status.ACTIVE, name]


def test_a_deadline_does_not_take_units_that_are_being_paid_for() -> None:
    settling = hold("a", status=Status.SETTLING, due_in=-MINUTE)
    [verdict] = decide(state_of(1, settling), [Move(Transition.CONFIRM, "a")], NOW).verdicts
    assert verdict.outcome is Outcome.MOVED


@pytest.mark.parametrize("name", TARGETS)
def test_another_owner_finds_no_such_reservation(name: str) -> None:
    state = state_of(10, hold("a", "bob"), hold("due", "bob", due_in=-1))
    for reservation_id in ("a", "due"):
        decision = decide(state, [command_named(name, reservation_id, "eve")], NOW)
        assert decision.verdicts[0].outcome is Outcome.NOT_FOUND
        assert decision.verdicts[0].reservation is None
        assert not decision.changes.events


@pytest.mark.parametrize("name", TARGETS)
def test_the_owner_finds_their_own(name: str) -> None:
    [verdict] = decide(state_of(10, hold("a", "ada")), [command_named(name, "a", "ada")], NOW).verdicts
    assert verdict.outcome is EXPECTED[Status.ACTIVE, name]


def test_of_two_moves_in_one_batch_the_first_wins() -> None:
    batch = [Move(Transition.CANCEL, "a"), Move(Transition.CONFIRM, "a"), Move(Transition.CANCEL, "a")]
    decision = decide(state_of(1, hold("a")), batch, NOW)
    assert [v.outcome for v in decision.verdicts] == [Outcome.MOVED, Outcome.ILLEGAL, Outcome.ALREADY]
    assert [e.type for e in decision.changes.events] == ["reservation.cancelled", "pool.returned"]


# --- extension


def opened(created_ago: int, due_in: int) -> Reservation:
    return Reservation("a", "sku", "ada", 1, Status.ACTIVE, NOW - created_ago, NOW + due_in)


def test_an_extension_counts_from_now() -> None:
    [verdict] = decide(state_of(1, opened(MINUTE, 1)), [Extend("a", MINUTE)], NOW).verdicts
    assert verdict.outcome is Outcome.MOVED
    assert verdict.reservation == opened(MINUTE, MINUTE)


@pytest.mark.parametrize("ttl_ms", [1, MINUTE - 1, MINUTE])
def test_an_extension_never_brings_a_deadline_forward(ttl_ms: int) -> None:
    decision = decide(state_of(1, opened(0, MINUTE)), [Extend("a", ttl_ms)], NOW)
    assert decision.verdicts == [Verdict(Outcome.ALREADY, opened(0, MINUTE))]
    assert not decision.changes.events


@pytest.mark.parametrize("beyond", [0, 1, 30 * MINUTE])
def test_an_extension_past_the_cap_ends_at_the_cap(beyond: int) -> None:
    state, room = state_of(1, opened(10 * MINUTE, MINUTE)), MAX_HOLD_MS - 10 * MINUTE
    [verdict] = decide(state, [Extend("a", room + beyond)], NOW).verdicts
    assert verdict == Verdict(Outcome.MOVED, opened(10 * MINUTE, room))


def test_an_extension_is_refused_only_when_nothing_can_be_added() -> None:
    at_cap = opened(10 * MINUTE, MAX_HOLD_MS - 10 * MINUTE)
    [refused] = decide(state_of(1, at_cap), [Extend("a", 1)], NOW).verdicts
    assert refused == Verdict(Outcome.EXTENSION_LIMIT, at_cap, latest_expires_at=at_cap.expires_at)
    [cut] = decide(state_of(1, opened(10 * MINUTE, 5)), [Extend("a", MINUTE, max_hold_ms=9 * MINUTE)], NOW).verdicts
    assert cut.outcome is Outcome.EXTENSION_LIMIT


def test_extensions_within_a_batch_follow_one_another() -> None:
    batch = [Extend("a", 2 * MINUTE), Extend("a", MINUTE), Extend("a", MAX_HOLD_MS), Extend("a", MAX_HOLD_MS)]
    decision = decide(state_of(1, opened(0, MINUTE)), batch, NOW)
    moved, already = Outcome.MOVED, Outcome.ALREADY
    assert [v.outcome for v in decision.verdicts] == [moved, already, moved, Outcome.EXTENSION_LIMIT]
    assert len(decision.changes.moved) == 1


def test_only_a_confirmed_reservation_has_the_time_of_its_confirmation() -> None:
    moves = [Move(Transition.SETTLE, "a"), Move(Transition.CONFIRM, "a"), Move(Transition.CONFIRM, "a")]
    verdicts = decide(state_of(1, opened(0, MINUTE)), moves, NOW).verdicts
    assert [v.reservation and v.reservation.confirmed_at for v in verdicts] == [None, NOW, NOW]
