"""Settlement, in every situation there is."""

from collections.abc import Iterator
from itertools import product

import pytest
from msgspec.structs import replace
from settling_model import AMOUNT, Node, reachable

from holdfast.domain.sale.sale import reacquired_id
from holdfast.domain.sale.settling import advance
from holdfast.domain.sale.settling_case import (
    AUTHENTICATION_REQUIRED,
    LEDGER_EFFECTS,
    AuthenticationRequested,
    Case,
    Discarded,
    Effect,
    EffectFailed,
    Event,
    Funding,
    GateAcknowledged,
    OrderSource,
    PaymentStatus,
    ProviderReplied,
    Reacquired,
    Resumed,
    Work,
)
from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Status, new_reservation_id, sku_of
from holdfast.domain.stock.shards import shard_of

P = PaymentStatus
ENDED = (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
EVENTS: list[Event] = [
    Resumed(),
    *[ProviderReplied(status, AMOUNT) for status in (None, P.AUTHORISED, P.CAPTURED, P.DECLINED, P.VOIDED)],
    ProviderReplied(P.DECLINED, AMOUNT, is_looked_up=True),
    ProviderReplied(P.CAPTURED, AMOUNT + 1),
    AuthenticationRequested("pi_1"),
    Reacquired(),
    Reacquired("sold_out"),
    GateAcknowledged(),
    EffectFailed(Effect.LOOK_UP, "no reply"),
    EffectFailed(Effect.LOOK_UP, "no use", is_final=True),
    Discarded(),
]


def every_case() -> Iterator[Case]:
    flags = [(False, True)] * 3
    for work, payment, reservation, order, funding, notifies, reacquiring, units in product(
        Work, [None, *P], [None, *Status], [None, *OrderSource], [None, *Funding], *flags
    ):
        case = Case(
            work=work, payment=payment, reservation=reservation, order=order, funding=funding, has_units=units,
            notifies_gate=notifies, is_reacquiring=reacquiring, amount=AMOUNT,
        )  # fmt: skip
        yield case
        if payment is not None:
            yield replace(case, is_earlier_payment=True, payment_attempt=2)
        if payment is P.DECLINED:
            for overdue, parks, earlier in product(*flags):
                yield replace(case, is_overdue=overdue, is_earlier_payment=earlier)
                yield replace(case, payment_attempts_max=1, parks_after_attempts=parks)
        if payment is P.ATTEMPTED:
            for unanswered in (False, True):
                yield replace(case, payment_reason=AUTHENTICATION_REQUIRED, is_unanswered=unanswered)
        if payment is P.CAPTURED:
            yield replace(case, is_paid_otherwise=True)


@pytest.fixture(scope="module")
def nodes() -> dict[Node, set[Node]]:
    return reachable()


def effects_of(case: Case, event: Event) -> list[Effect]:
    return advance(case, event)[1]


# --- over all reachable states


def test_every_effect_is_reached(nodes: dict[Node, set[Node]]) -> None:
    reached = {effect for n in nodes if n.case.is_open for effect in effects_of(n.case, Resumed())}
    asked = [n for n in nodes if n.world.held is P.ATTEMPTED and n.case.is_open]
    reached |= {effect for n in asked for effect in effects_of(n.case, AuthenticationRequested())}
    assert reached | {n.pending for n in nodes if n.pending} >= set(Effect) - {Effect.REPORT, Effect.CHECK_SOON}


def test_at_most_one_capture_per_reservation(nodes: dict[Node, set[Node]]) -> None:
    """I3."""
    assert {node.world.taken for node in nodes} == {0, 1}
    capturing = {(n.case.payment, n.case.ending) for n in nodes if n.pending is Effect.CAPTURE}
    assert capturing == {(P.CLAIMED, None)}


def test_every_charge_ends_as_an_order_or_a_refund(nodes: dict[Node, set[Node]]) -> None:
    """I4. A replacement reservation takes the charge over, and is settled like any other."""
    for node in nodes:
        world = node.world
        spent = world.orders + world.refunds + (world.replacements if node.case.has_replacement else 0)
        if node.case.amount:
            assert spent <= world.taken, node
        if node.case.work in (Work.DONE, Work.DISCARDED) and node.case.amount:
            assert spent == world.taken, node


def test_each_reservation_ends_exactly_once(nodes: dict[Node, set[Node]]) -> None:
    """I6. With external funding the caller ends it; a discarded one was never seen by the ledger."""
    assert {node.world.endings for node in nodes} == {0, 1}
    done = [n for n in nodes if n.case.work is Work.DONE and n.case.funding is not Funding.EXTERNAL]
    assert {n.world.endings for n in done if n.case.reservation is not Status.ACTIVE} == {1}
    assert {n.world.endings for n in done if n.case.reservation is Status.ACTIVE} == {0}


def test_units_return_only_when_no_money_was_taken(nodes: dict[Node, set[Node]]) -> None:
    returning = [n for n in nodes if n.case.ending in (Transition.FAIL, Transition.REOPEN)]
    assert {n.case.ending for n in returning} == {Transition.FAIL, Transition.REOPEN}
    assert {n.world.taken for n in returning} == {0}


def test_nothing_is_released_while_money_may_be_moving(nodes: dict[Node, set[Node]]) -> None:
    """The provider has no authorisation when units return or the buyer may pay again."""
    releasing = [n for n in nodes if n.case.ending in (Transition.FAIL, Transition.REOPEN)]
    assert {n.world.held for n in releasing} <= {None, P.DECLINED, P.VOIDED}


def test_a_buyer_gets_as_many_attempts_as_the_sale_allows(nodes: dict[Node, set[Node]]) -> None:
    assert {n.case.payment_attempt for n in nodes} == {1, 2}
    reopened = [n for n in nodes if n.case.ending is Transition.REOPEN]
    assert {n.case.payment_attempt for n in reopened} == {1}
    assert {n.case.payment_attempt for n in nodes if n.case.order and n.case.funding is Funding.PROVIDER} == {1, 2}


def test_every_reachable_state_can_reach_an_end(nodes: dict[Node, set[Node]]) -> None:
    before: dict[Node, list[Node]] = {}
    for node, following in nodes.items():
        for other in following:
            before.setdefault(other, []).append(node)
    waiting = [n for n in nodes if n.case.work in (Work.DONE, Work.DISCARDED)]
    ending = set(waiting)
    while waiting:
        fresh = [n for n in before.get(waiting.pop(), []) if n not in ending]
        ending.update(fresh)
        waiting += fresh
    assert set(nodes) <= ending
    unknown = [n for n in nodes if n.case.funding is None and n.case.work is Work.PARKED]
    assert unknown, "an unknown sale waits for a person"


# --- over all states, reachable or not


@pytest.mark.daily
def test_every_event_in_every_state_leads_somewhere_and_one_that_does_not_fit_changes_nothing_by_itself() -> None:
    for case in every_case():
        resumed, then = advance(case, Resumed())
        reported = (resumed, [Effect.REPORT, *then]) if case.is_open else (case, [Effect.REPORT])
        for event in EVENTS:
            after, effects = advance(case, event)
            if not case.is_open or Effect.REPORT in effects:
                assert (after, effects) == reported, (case, event)
            elif after.is_open:
                assert effects[-1] not in LEDGER_EFFECTS, (case, event)
            assert effects or not after.is_open


def test_an_earlier_payment_without_money_leaves_the_attempt_in_progress_alone() -> None:
    """Neither may its key be charged for the next attempt, nor may it end that attempt. An operator's discard may."""
    replies = [ProviderReplied(status, AMOUNT) for status in (None, P.DECLINED, P.VOIDED)]
    asked = (P.ATTEMPTED, P.AUTHORISED, P.CLAIMED, P.DECLINED, P.VOIDED)
    earlier = [
        case
        for case in every_case()
        if case.is_earlier_payment
        and (case.work, case.reservation) == (Work.WAITING, Status.SETTLING)
        and case.payment in asked
        and case.funding is not None
    ]
    assert {case.payment for case in earlier} == set(asked)
    replied = {tuple(effects_of(case, reply)) for case, reply in product(earlier, replies)}
    assert replied == {(Effect.CHECK_SOON,)}
    resumed = {effect for case in earlier for effect in effects_of(case, Resumed())}
    assert resumed == {Effect.CHECK_SOON, Effect.LOOK_UP, Effect.VOID, Effect.CAPTURE}


# --- one by one


@pytest.mark.parametrize(
    ("payment", "event", "effects"),
    [
        (None, Resumed(), [Effect.AUTHORISE]),
        (P.NEW, Resumed(), [Effect.AUTHORISE]),
        (P.ATTEMPTED, Resumed(), [Effect.LOOK_UP]),
        (P.ATTEMPTED, ProviderReplied(None), [Effect.AUTHORISE]),
        (P.ATTEMPTED, ProviderReplied(P.AUTHORISED), [Effect.CAPTURE]),
        (P.AUTHORISED, Resumed(), [Effect.CAPTURE]),
        (P.CLAIMED, Resumed(), [Effect.LOOK_UP]),
        (P.CLAIMED, ProviderReplied(P.AUTHORISED), [Effect.CAPTURE]),
        (P.CLAIMED, ProviderReplied(P.CAPTURED), [Effect.SELL]),
        (P.CLAIMED, ProviderReplied(P.VOIDED), [Effect.RETURN_UNITS]),
        (P.CAPTURED, Resumed(), [Effect.SELL]),
        (P.DECLINED, Resumed(), [Effect.REOPEN]),
        (P.ATTEMPTED, ProviderReplied(P.DECLINED), [Effect.REOPEN]),
    ],
)
def test_while_the_reservation_is_settling(payment: P | None, event: Event, effects: list[Effect]) -> None:
    assert effects_of(Case(payment=payment), event) == effects


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize(
    ("payment", "event", "effects"),
    [
        (None, Resumed(), []),
        (P.ATTEMPTED, Resumed(), [Effect.LOOK_UP]),
        (P.AUTHORISED, Resumed(), [Effect.VOID]),
        (P.CLAIMED, Resumed(), [Effect.LOOK_UP]),
        (P.CLAIMED, ProviderReplied(P.AUTHORISED), [Effect.VOID]),
        (P.DECLINED, Resumed(), []),
        (P.VOIDED, Resumed(), []),
    ],
)
def test_after_the_reservation_has_ended(
    status: Status, payment: P | None, event: Event, effects: list[Effect]
) -> None:
    assert effects_of(Case(payment=payment, reservation=status), event) == effects


@pytest.mark.parametrize(
    ("case", "event", "effects", "work"),
    [
        (Case(is_overdue=True), Resumed(), [Effect.LOOK_UP], Work.WAITING),
        (Case(payment_attempt=3), Resumed(), [Effect.LOOK_UP], Work.WAITING),
        (Case(payment_attempt=3), ProviderReplied(P.DECLINED), [Effect.LOOK_UP], Work.WAITING),
        (Case(payment_attempt=3), ProviderReplied(P.DECLINED, is_looked_up=True), [Effect.RETURN_UNITS], Work.DONE),
        (Case(payment_attempt=3), ProviderReplied(None, is_looked_up=True), [Effect.RETURN_UNITS], Work.DONE),
        (Case(payment_attempt=3), ProviderReplied(P.AUTHORISED, is_looked_up=True), [Effect.CAPTURE], Work.WAITING),
        (Case(payment_attempt=3), ProviderReplied(P.CAPTURED, is_looked_up=True), [Effect.SELL], Work.DONE),
        (Case(payment_attempt=3), EffectFailed(Effect.LOOK_UP, "?"), [Effect.RETRY_LATER], Work.WAITING),
        (Case(payment_attempt=3, funding=Funding.LEDGER), Resumed(), [Effect.RETURN_UNITS], Work.DONE),
        (
            Case(payment_attempt=3, parks_after_attempts=True),
            ProviderReplied(P.DECLINED, is_looked_up=True),
            [],
            Work.PARKED,
        ),
        (Case(payment_reason="buyer_limit"), Resumed(), [Effect.RETURN_UNITS], Work.DONE),
        (Case(is_earlier_payment=True), Resumed(), [Effect.CHECK_SOON], Work.WAITING),
        (Case(is_earlier_payment=True), Discarded(), [Effect.RETURN_UNITS], Work.DONE),
        (Case(reservation=Status.ACTIVE), Resumed(), [], Work.DONE),
    ],
)
def test_a_declined_payment(case: Case, event: Event, effects: list[Effect], work: Work) -> None:
    after, then = advance(replace(case, payment=P.DECLINED), event)
    assert (then, after.work) == (effects, work)


@pytest.mark.parametrize(
    ("case", "event", "effects"),
    [
        (Case(), AuthenticationRequested("pi_1"), [Effect.AWAIT_BUYER]),
        (Case(), ProviderReplied(P.AUTHORISED, AMOUNT), [Effect.CAPTURE]),
        (Case(), ProviderReplied(P.DECLINED, AMOUNT), [Effect.REOPEN]),
        (Case(is_unanswered=True), AuthenticationRequested("pi_1"), [Effect.VOID]),
        (Case(is_unanswered=True), ProviderReplied(P.AUTHORISED, AMOUNT), [Effect.CAPTURE]),
        (Case(is_unanswered=True), ProviderReplied(P.VOIDED, AMOUNT), [Effect.REOPEN]),
        (Case(is_unanswered=True, is_overdue=True), ProviderReplied(P.VOIDED, AMOUNT), [Effect.LOOK_UP]),
        (Case(reservation=Status.FAILED), AuthenticationRequested("pi_1"), [Effect.VOID]),
        (Case(is_earlier_payment=True), AuthenticationRequested("pi_1"), [Effect.VOID]),
    ],
)
def test_while_the_bank_asks_the_buyer(case: Case, event: Event, effects: list[Effect]) -> None:
    asked = replace(case, payment=P.ATTEMPTED, payment_reason=AUTHENTICATION_REQUIRED, amount=AMOUNT)
    assert effects_of(asked, event) == effects


def test_a_bank_that_nobody_answered_is_the_reason_of_the_decline() -> None:
    asked = Case(payment=P.ATTEMPTED, payment_reason=AUTHENTICATION_REQUIRED, is_unanswered=True, is_overdue=True)
    declined, _ = advance(asked, ProviderReplied(P.VOIDED, reason="requested_by_customer"))
    failed, effects = advance(declined, ProviderReplied(P.VOIDED, reason="requested_by_customer", is_looked_up=True))
    assert (effects, failed.reason) == ([Effect.RETURN_UNITS], AUTHENTICATION_REQUIRED)


def test_a_decline_keeps_the_units_and_says_why() -> None:
    after, _ = advance(Case(payment=P.ATTEMPTED), ProviderReplied(P.DECLINED, reason="card_declined"))
    assert (after.reservation, after.ending, after.reason) == (Status.ACTIVE, Transition.REOPEN, "card_declined")
    told = advance(Case(payment=P.DECLINED, notifies_gate=True), Resumed())
    assert (told[0].work, told[0].reservation, told[1]) == (
        Work.NOTIFYING,
        Status.SETTLING,
        [Effect.REOPEN, Effect.NOTIFY_GATE],
    )
    assert effects_of(told[0], GateAcknowledged()) == [Effect.CHECK_SOON]
    assert advance(replace(told[0], reservation=Status.ACTIVE), Resumed())[0].work is Work.DONE


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SETTLING, *ENDED])
def test_money_taken_by_a_declined_payment_goes_back_if_another_one_paid(status: Status) -> None:
    disputed = Case(payment=P.ATTEMPTED, reservation=status, is_paid_otherwise=True, order=OrderSource.SETTLER)
    after, effects = advance(disputed, ProviderReplied(P.CAPTURED))
    assert (after.work, after.refund_cause, effects) == (Work.DONE, "paid_twice", [Effect.OWE_REFUND])


def test_money_that_came_too_late_is_replaced_or_refunded() -> None:
    late, effects = advance(Case(payment=P.CAPTURED, reservation=Status.FAILED), Resumed())
    assert (late.is_reacquiring, effects) == (True, [Effect.REACQUIRE])
    assert effects_of(late, Reacquired()) == [Effect.CHECK_SOON]
    refused, effects = advance(late, Reacquired("sold_out"))
    assert (refused.is_reacquiring, refused.work, effects) == (False, Work.DONE, [Effect.OWE_REFUND])
    sold = Case(payment=P.CAPTURED, reservation=Status.CONFIRMED, order=OrderSource.EXTERNAL)
    assert effects_of(sold, Resumed()) == [Effect.OWE_REFUND]


def test_after_too_many_attempts_it_is_parked_unless_only_the_gate_has_to_be_notified() -> None:
    failed, tired = EffectFailed(Effect.CAPTURE, "no reply"), Case(payment=P.CLAIMED, attempts=1, attempts_max=2)
    assert advance(tired, failed)[0].work is Work.PARKED
    notifying = Case(payment=P.CAPTURED, work=Work.NOTIFYING, attempts=1, attempts_max=2)
    assert effects_of(notifying, failed) == [Effect.CHECK_SOON]


def test_a_payment_over_another_amount_is_parked() -> None:
    case, effects = advance(Case(payment=P.ATTEMPTED, amount=AMOUNT), ProviderReplied(P.AUTHORISED, AMOUNT + 1))
    assert (case.work, effects) == (Work.PARKED, [])


def test_a_replacement_has_an_id_of_its_own_and_always_the_same() -> None:
    first = new_reservation_id("sneaker", "ada")
    again = reacquired_id(first)
    assert again == reacquired_id(first) != first
    assert shard_of(again, 64) == shard_of(first, 64)
    assert (sku_of(again), len(again), again[:16]) == ("sneaker", len(first), first[:16])
