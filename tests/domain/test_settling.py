"""What comes next, in every situation there is."""

from itertools import product

import pytest

from holdfast.domain.reservation import Status, new_reservation_id, sku_of
from holdfast.domain.settling import Ordered, PaymentMark, Situation, Step, next_step, reacquired_id
from holdfast.domain.shards import shard_of

M = PaymentMark
ENDED = (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
RETURNED = ENDED[1:]
EVERY = [
    Situation(
        mark=mark, reservation=reservation, ordered=ordered, fresh=fresh, has_room=room, in_ledger=ledger,
        external=external, telling=telling, refused=refused, attempts=attempts, attempts_max=3,
    )
    for mark, reservation, ordered, fresh, room, ledger, external, telling, refused, attempts in product(
        [None, *M], [None, *Status], Ordered, *[(False, True)] * 6, (0, 3)
    )
]  # fmt: skip
OPEN = [s for s in EVERY if not s.telling and s.attempts < 3]


@pytest.mark.parametrize(
    ("mark", "fresh", "step"),
    [
        (None, False, Step.ATTEMPT),
        (M.NEW, False, Step.ATTEMPT),
        (M.ATTEMPTED, True, Step.AUTHORISE),
        (M.ATTEMPTED, False, Step.LOOK_UP),
        (M.AUTHORISED, False, Step.CLAIM),
        (M.CLAIMED, True, Step.CAPTURE),
        (M.CLAIMED, False, Step.LOOK_UP),
        (M.CAPTURED, False, Step.ORDER),
        (M.DECLINED, False, Step.FAIL),
        (M.VOIDED, False, Step.FAIL),
    ],
)
def test_the_usual_way(mark: M | None, fresh: bool, step: Step) -> None:
    assert next_step(Situation(mark=mark, fresh=fresh)) is step


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize(
    ("mark", "fresh", "step"),
    [
        (None, False, Step.DONE),
        (M.NEW, True, Step.DONE),
        (M.ATTEMPTED, True, Step.LOOK_UP),
        (M.AUTHORISED, True, Step.VOID),
        (M.CLAIMED, False, Step.LOOK_UP),
        (M.CLAIMED, True, Step.VOID),
        (M.DECLINED, True, Step.DONE),
        (M.VOIDED, True, Step.DONE),
    ],
)
def test_after_the_reservation_has_ended(status: Status, mark: M | None, fresh: bool, step: Step) -> None:
    assert next_step(Situation(mark=mark, fresh=fresh, reservation=status)) is step


def test_the_ladder_of_money_that_came_too_late() -> None:
    late = Situation(mark=M.CAPTURED, reservation=Status.FAILED)
    assert next_step(late) is Step.REACQUIRE
    assert next_step(Situation(mark=M.CAPTURED, reservation=Status.FAILED, refused=True)) is Step.REFUND
    sold = Situation(mark=M.CAPTURED, reservation=Status.CONFIRMED, ordered=Ordered.THEIRS)
    assert next_step(sold) is Step.REFUND


def test_every_situation_has_a_next_step() -> None:
    assert {next_step(s) for s in EVERY} == set(Step)


def test_units_return_only_when_no_money_was_taken() -> None:
    assert {s.mark for s in OPEN if next_step(s) is Step.FAIL} == {M.DECLINED, M.VOIDED}


def test_money_is_taken_only_for_units_that_are_claimed() -> None:
    taking = [s for s in OPEN if next_step(s) is Step.CAPTURE]
    assert {(s.mark, s.reservation, s.fresh) for s in taking} == {(M.CLAIMED, Status.SETTLING, True)}


def test_nobody_is_asked_to_pay_whose_outcome_is_unknown() -> None:
    asking = [s for s in OPEN if next_step(s) is Step.AUTHORISE]
    assert all(s.fresh for s in asking)
    assert {s.mark for s in asking} == {M.ATTEMPTED}


def test_captured_money_is_never_simply_kept() -> None:
    ends = [s for s in OPEN if s.mark is M.CAPTURED and next_step(s) is Step.DONE]
    assert {s.ordered for s in ends} == {Ordered.OURS}


def test_whoever_has_tried_often_enough_is_parked_unless_only_the_gate_has_to_be_told() -> None:
    assert {next_step(s) for s in EVERY if s.attempts == 3 and not s.telling} == {Step.PARK}
    assert not any(next_step(s) is Step.TELL for s in EVERY if not s.telling)


def test_the_gate_is_told_until_the_ledger_has_read_of_it() -> None:
    has_ended = (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
    told = [s for s in EVERY if s.telling]
    assert all(next_step(s) is (Step.DONE if s.reservation in has_ended else Step.TELL) for s in told)


def test_another_unit_has_an_id_of_its_own_and_always_the_same() -> None:
    first = new_reservation_id("sneaker", "ada")
    again = reacquired_id(first)
    assert again == reacquired_id(first) != first
    assert shard_of(again, 64) == shard_of(first, 64)
    assert (sku_of(again), len(again), again[:16]) == ("sneaker", len(first), first[:16])
