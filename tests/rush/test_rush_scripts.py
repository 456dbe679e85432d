"""One simulated buyer against scripted responses: no server, and a controlled clock."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rush_evidence import OFFER, witness

from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.http import Request, Response
from holdfast.lab.rush.buyers.actions import Pause, Script, Solve, Step, Together
from holdfast.lab.rush.buyers.behaviour import Behaviour, CartAction, QueueBehaviour
from holdfast.lab.rush.buyers.bots import visit
from holdfast.lab.rush.buyers.buyer import Buyer, BuyerContext, Offer
from holdfast.lab.rush.buyers.record import Ending
from holdfast.lab.rush.buyers.waiting_room import wait_in_line
from holdfast.lab.scenarios.scenario import HAMMER_BURST, HAMMER_BURSTS, BotKind

Respond = Callable[[Request], tuple[int, dict[str, Any]]]
NO_ROOM = Offer("sale", "sku", 3, "cart", "sandbox", 100, "EUR", "off", False, 1, 10.0, 0.0)


class Stage:
    """Answers one buyer, and records their requests."""

    def __init__(self, plan: Behaviour, offer: Offer = NO_ROOM) -> None:
        self.now = 100.0
        self.asked: list[Request] = []
        context = BuyerContext(lambda: self.now, lambda: 0.5, BuyerTokens("s" * 32), "hf_key")
        self.record = witness(plan.bot)
        self.buyer = Buyer(self.record, plan, offer, context)

    def play(self, script: Script[Any], respond: Respond) -> Any:
        sent: Any = None
        while True:
            try:
                action = script.send(sent)
            except StopIteration as end:
                return end.value
            if isinstance(action, Pause):
                self.now += action.seconds
                sent = None
            elif isinstance(action, Together):
                sent = [self._answer(request, respond) for request in action.requests]
            elif isinstance(action, Solve):
                sent = "proof"
            else:
                sent = self._answer(action, respond)

    def _answer(self, request: Request, respond: Respond) -> Response:
        self.asked.append(request)
        self.now += 0.01
        if request.hang_up_s is not None:
            return Response(0, b"", self.now, self.now)
        status, body = respond(request)
        return Response(status, json.dumps(body).encode() if body else b"", self.now - 0.01, self.now)

    def steps(self) -> list[str]:
        return [request.step for request in self.asked]

    @property
    def reported(self) -> set[str]:
        return {invariant for invariant, _ in self.record.violations}


def grant(number: int = 1, status: str = "active") -> tuple[int, dict[str, Any]]:
    return 201, {"reservation_id": f"rsv-{number}", "quantity": 1, "amount": 100, "status": status}


def refusal(reason: str, status: int = 409) -> tuple[int, dict[str, Any]]:
    return status, {"reason": reason, "status": status}


def good_server(request: Request) -> tuple[int, dict[str, Any]]:
    responses: dict[str, tuple[int, dict[str, Any]]] = {
        Step.PURCHASE: grant(),
        Step.CONFIRM: (202, {"status": "settling"}),
        Step.EXTEND: (200, {"status": "active"}),
        Step.GIVE_BACK: (204, {}),
        Step.RESERVATION: (200, {"status": "confirmed"}),
        Step.ORDERS: (200, {"data": [{"order_id": "o", "reservation_id": "rsv-1", "status": "confirmed"}]}),
    }
    return responses[request.step]


def test_a_buyer_reserves_pays_polls_and_reads_the_order() -> None:
    stage = Stage(Behaviour(extends=True))
    stage.play(visit(stage.buyer), good_server)
    assert stage.steps() == ["purchase", "extend", "confirm", "reservation", "orders"]
    assert stage.record.ending is Ending.BOUGHT
    assert [one.status for one in stage.record.grants] == ["confirmed"]
    assert stage.record.violations == []


@pytest.mark.parametrize(
    ("plan", "steps", "ending"),
    [
        (Behaviour(cart_action=CartAction.ABANDON), ["purchase"], Ending.ABANDONED),
        (Behaviour(cart_action=CartAction.GIVE_BACK), ["purchase", "give_back"], Ending.GAVE_BACK),
    ],
)
def test_a_cart_may_be_abandoned_or_cancelled(plan: Behaviour, steps: list[str], ending: Ending) -> None:
    stage = Stage(plan)
    stage.play(visit(stage.buyer), good_server)
    assert (stage.steps(), stage.record.ending) == (steps, ending)


def test_a_lost_response_is_retried_under_the_same_key() -> None:
    stage = Stage(Behaviour(loses_reply=True, cart_action=CartAction.ABANDON))
    stage.play(visit(stage.buyer), good_server)
    first, second = stage.asked
    assert first.hang_up_s is not None
    assert (first.headers, first.body, second.hang_up_s) == (second.headers, second.body, None)
    assert len(stage.record.grants) == 1


def test_two_reservations_for_a_double_click_are_reported() -> None:
    stage = Stage(Behaviour(double_click=True, cart_action=CartAction.ABANDON))
    stage.play(visit(stage.buyer), lambda _: grant(len(stage.asked)))
    assert stage.reported == {"same_key_same_answer"}


def test_another_reservation_on_a_refresh_is_reported() -> None:
    stage = Stage(Behaviour(refreshes=True, cart_action=CartAction.ABANDON))
    stage.play(visit(stage.buyer), lambda _: grant(len(stage.asked)))
    assert stage.reported == {"same_key_same_answer"}


def test_a_buyer_who_finds_everything_held_retries_and_finally_gives_up() -> None:
    stage = Stage(Behaviour())
    stage.play(visit(stage.buyer), lambda _: refusal("all_held"))
    assert stage.record.ending is Ending.NOTHING_FREE
    assert len(stage.asked) > 5
    assert len({request.headers for request in stage.asked}) == 1


def test_sold_out_ends_a_visit_and_its_time_is_recorded() -> None:
    stage = Stage(Behaviour())
    stage.play(visit(stage.buyer), lambda _: refusal("sold_out"))
    assert (stage.steps(), stage.record.ending) == (["purchase"], Ending.SOLD_OUT)
    assert stage.record.sold_out_at == stage.now


@pytest.mark.parametrize(("think_s", "reported"), [(1.0, {"yes_kept"}), (30.0, set[str]())])
def test_a_hold_that_expires_early_is_reported(think_s: float, reported: set[str]) -> None:
    stage = Stage(Behaviour(think_s=think_s))
    stage.play(
        visit(stage.buyer), lambda request: grant() if request.step is Step.PURCHASE else refusal("reservation_expired")
    )
    assert stage.record.ending is Ending.TOO_LATE
    assert stage.reported == reported


def test_units_lost_during_payment_are_reported() -> None:
    stage = Stage(Behaviour())
    lost: dict[str, tuple[int, dict[str, Any]]] = {Step.RESERVATION: (200, {"status": "expired"})}
    stage.play(visit(stage.buyer), lambda request: lost.get(request.step) or good_server(request))
    assert stage.reported == {"yes_kept"}


def test_units_of_a_declined_buyer_may_expire_before_they_ask_again() -> None:
    stage = Stage(Behaviour(declined=True))
    lost: dict[str, tuple[int, dict[str, Any]]] = {Step.RESERVATION: (200, {"status": "expired"})}
    stage.play(visit(stage.buyer), lambda request: lost.get(request.step) or good_server(request))
    assert stage.reported == set()
    assert stage.record.ending is Ending.DECLINED


def page_server(state: str) -> Respond:
    return lambda request: (200, {"state": state}) if request.step is Step.OPEN else good_server(request)


def test_a_buyer_who_looks_first_goes_away_if_all_is_sold() -> None:
    gone = Stage(Behaviour(looks_first=True))
    gone.play(visit(gone.buyer), page_server("sold_out"))
    assert gone.steps() == ["open"]
    assert gone.record.ending is Ending.SOLD_OUT
    assert gone.record.sold_out_at == 0
    stays = Stage(Behaviour(looks_first=True))
    stays.play(visit(stays.buyer), page_server("open"))
    assert stays.steps()[:2] == ["open", "purchase"]
    assert stays.record.ending is Ending.BOUGHT


def test_a_confirmed_sale_without_an_order_is_reported() -> None:
    stage = Stage(Behaviour())
    none: dict[str, tuple[int, dict[str, Any]]] = {Step.ORDERS: (200, {"data": []})}
    stage.play(visit(stage.buyer), lambda request: none.get(request.step) or good_server(request))
    assert stage.reported == {"yes_kept"}


def test_a_server_error_is_reported_and_no_response_is_an_unknown_outcome() -> None:
    stage = Stage(Behaviour())
    stage.play(visit(stage.buyer), lambda _: refusal("internal_error", 500))
    assert stage.reported == {"no_server_error"}
    silent = Stage(Behaviour())
    silent.play(visit(silent.buyer), lambda _: (0, {}))
    assert silent.record.ending is Ending.GAVE_UP
    assert silent.record.outcome_unknown


def test_a_declined_buyer_tries_another_card_under_another_key() -> None:
    stage = Stage(Behaviour(declined=True, second_card=True))

    def respond(request: Request) -> tuple[int, dict[str, Any]]:
        if request.step is Step.RESERVATION:
            return 200, {"status": "failed" if stage.steps().count("purchase") == 1 else "confirmed"}
        return good_server(request)

    stage.play(visit(stage.buyer), respond)
    cards = [b"pm_decline" in request.body for request in stage.asked if request.step is Step.CONFIRM]
    assert cards == [True, False]
    assert stage.record.ending is Ending.BOUGHT


@pytest.mark.parametrize("second_card", [True, False])
def test_a_declined_buyer_keeps_the_unit_and_pays_again_or_removes_it(second_card: bool) -> None:
    stage = Stage(Behaviour(declined=True, second_card=second_card))

    def respond(request: Request) -> tuple[int, dict[str, Any]]:
        if request.step is Step.RESERVATION:
            return 200, {"status": "active" if stage.steps().count("confirm") == 1 else "confirmed"}
        return good_server(request)

    stage.play(visit(stage.buyer), respond)
    cards = [request.body.decode() for request in stage.asked if request.step is Step.CONFIRM]
    tried = [name for body in cards for name in ("pm_decline", "pm_card") if name in body]
    assert tried == (["pm_decline", "pm_card"] if second_card else ["pm_decline"])
    assert stage.steps().count("purchase") == 1
    assert stage.record.ending is (Ending.BOUGHT if second_card else Ending.DECLINED)


def test_bots_that_get_units_are_reported() -> None:
    for bot, offer in ((BotKind.FORGED, OFFER), (BotKind.HAMMER, NO_ROOM)):
        stage = Stage(Behaviour(bot=bot, cart_action=CartAction.ABANDON), offer)
        stage.play(visit(stage.buyer), lambda _, stage=stage: grant(len(stage.asked)))  # type: ignore[misc]
        assert stage.reported == {"bots_kept_out" if bot is BotKind.FORGED else "limits_kept"}


@pytest.mark.parametrize(("hold_s", "is_reported"), [(10.0, True), (0.3, False)])
def test_a_bot_may_be_granted_more_than_the_limit_one_after_the_other(hold_s: float, is_reported: bool) -> None:
    """Answers are 0.01 s apart and each burst has one unit, so short holds have expired when the next is granted."""
    stage = Stage(Behaviour(bot=BotKind.HAMMER, cart_action=CartAction.ABANDON), replace(NO_ROOM, hold_s=hold_s))

    def respond(_: Request) -> tuple[int, dict[str, Any]]:
        if len(stage.asked) % HAMMER_BURST != 1:
            return 409, {"reason": "buyer_limit"}
        stage.now += 0.25
        return grant(len(stage.asked))

    stage.play(visit(stage.buyer), respond)
    assert len(stage.record.grants) == HAMMER_BURSTS
    assert stage.reported == ({"limits_kept"} if is_reported else set())


def ticket(arrival: int) -> str:
    return f"x.{base64.urlsafe_b64encode(json.dumps({'arrival': arrival}).encode()).decode()}.x"


def line_server(stage: Stage, serving_at: float, *, leave: int = 204, arrivals: tuple[int, ...] = (4,)) -> Respond:
    def respond(request: Request) -> tuple[int, dict[str, Any]]:
        if request.step is Step.JOIN:
            arrival = arrivals[min(stage.steps().count("join"), len(arrivals)) - 1]
            return 200, {"ticket": ticket(arrival), "position": arrival + 1, "serving": 0}
        if request.step is Step.NOW:
            return 200, {"state": "open", "serving": 99 if stage.now >= serving_at else 0, "next_poll_ms": 1000}
        if request.step is Step.LEAVE:
            return leave, {}
        return 200, {"pass": "pass"}

    return respond


def test_a_buyer_polls_until_called_and_then_claims_a_pass() -> None:
    stage = Stage(Behaviour(), OFFER)
    given = stage.play(wait_in_line(stage.buyer), line_server(stage, serving_at=110.0))
    assert given == "pass"
    assert stage.steps()[0] == "join"
    assert stage.steps()[-1] == "admission"
    assert set(stage.steps()[1:-1]) == {"now"}
    [place] = stage.record.places
    assert (place.arrival, place.position) == (4, 5)
    assert place.admitted_at == stage.now


def test_a_buyer_who_leaves_and_returns_has_two_places() -> None:
    stage = Stage(Behaviour(in_line=QueueBehaviour.COME_BACK, leave_after_s=2), OFFER)
    given = stage.play(wait_in_line(stage.buyer), line_server(stage, serving_at=120.0, arrivals=(4, 9)))
    assert given == "pass"
    assert [place.arrival for place in stage.record.places] == [4, 9]
    assert stage.record.violations == []


def test_an_unanswered_leave_keeps_the_place() -> None:
    stage = Stage(Behaviour(in_line=QueueBehaviour.COME_BACK, leave_after_s=2), OFFER)
    stage.play(wait_in_line(stage.buyer), line_server(stage, serving_at=400.0, leave=503))
    [place] = stage.record.places
    assert place.answered_at < 101
    assert stage.record.violations == []


def test_a_place_that_was_left_and_is_given_again_is_reported() -> None:
    stage = Stage(Behaviour(in_line=QueueBehaviour.COME_BACK, leave_after_s=2), OFFER)
    stage.play(wait_in_line(stage.buyer), line_server(stage, serving_at=120.0))
    assert stage.reported == {"order_kept"}


def stamping_server(stage: Stage, place_at: float, refuses: str = "") -> Respond:
    """Overrun: it stamps arrivals, and knows their places from some moment on."""
    usual = line_server(stage, serving_at=place_at + 5)

    def respond(request: Request) -> tuple[int, dict[str, Any]]:
        if request.step is Step.JOIN or (request.step is Step.STATUS and stage.now < place_at):
            return 202, {"ticket": "x.e30.x", "position": None, "serving": 0}
        if request.step is Step.STATUS:
            return refusal(refuses) if refuses else (200, {"ticket": ticket(7), "position": 8, "serving": 0})
        return usual(request)

    return respond


def test_a_stamped_buyer_asks_for_their_place_and_waits_with_it() -> None:
    stage = Stage(Behaviour(), OFFER)
    given = stage.play(wait_in_line(stage.buyer), stamping_server(stage, place_at=106.0))
    assert given == "pass"
    steps = stage.steps()
    # Asked after every poll, until the answer is a place.
    assert steps[:5] == ["join", "now", "status", "now", "status"]
    assert steps[-2:] == ["now", "admission"]
    [place] = stage.record.places
    assert (place.arrival, place.position) == (7, 8)
    assert place.joined_at < 101
    assert place.answered_at >= 106


def test_a_stamped_buyer_whose_ticket_is_refused_reports_it_unless_it_is_over() -> None:
    for reason, ending, reported in (
        ("sold_out", Ending.SOLD_OUT, set()),
        ("ticket_invalid", Ending.GAVE_UP, {"tickets_honoured"}),
    ):
        stage = Stage(Behaviour(), OFFER)
        stage.play(wait_in_line(stage.buyer), stamping_server(stage, place_at=104.0, refuses=reason))
        assert stage.record.ending is ending
        assert stage.reported == reported
        assert stage.record.places == []
