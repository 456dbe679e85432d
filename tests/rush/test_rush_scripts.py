"""What one simulated buyer does, against answers made up here: no server, no clock but ours."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from rush_world import OFFER, witness

from holdfast.rush.bots import visit
from holdfast.rush.line import stand_in_line
from holdfast.rush.plan import InLine, Plan, WithCart
from holdfast.rush.scenario import BotKind
from holdfast.rush.testimony import Ending
from holdfast.rush.tokens import Tokens
from holdfast.rush.visitor import Offer, Surroundings, Visitor
from holdfast.rush.wishes import Answer, Ask, Pause, Script, Solve, Step, Together

Respond = Callable[[Ask], tuple[int, dict[str, Any]]]
NO_ROOM = Offer("sale", "sku", 3, "cart", "sandbox", 100, "EUR", "off", False, 1, 10.0, 0.0)


class Stage:
    """Plays the world to one buyer, and notes what they asked."""

    def __init__(self, plan: Plan, offer: Offer = NO_ROOM) -> None:
        self.now = 100.0
        self.asked: list[Ask] = []
        around = Surroundings(lambda: self.now, lambda: 0.5, Tokens("s" * 32), "hf_key")
        self.testimony = witness(plan.bot)
        self.visitor = Visitor(self.testimony, plan, offer, around)

    def play(self, script: Script[Any], respond: Respond) -> Any:
        sent: Any = None
        while True:
            try:
                wish = script.send(sent)
            except StopIteration as end:
                return end.value
            if isinstance(wish, Pause):
                self.now += wish.seconds
                sent = None
            elif isinstance(wish, Together):
                sent = [self._answer(ask, respond) for ask in wish.asks]
            elif isinstance(wish, Solve):
                sent = "proof"
            else:
                sent = self._answer(wish, respond)

    def _answer(self, ask: Ask, respond: Respond) -> Answer:
        self.asked.append(ask)
        self.now += 0.01
        if ask.hang_up_s is not None:
            return Answer(0, b"", self.now, self.now)
        status, body = respond(ask)
        return Answer(status, json.dumps(body).encode() if body else b"", self.now - 0.01, self.now)

    def steps(self) -> list[str]:
        return [ask.step.value for ask in self.asked]

    @property
    def sworn(self) -> set[str]:
        return {invariant for invariant, _ in self.testimony.odd}


def grant(number: int = 1, status: str = "active") -> tuple[int, dict[str, Any]]:
    return 201, {"reservation_id": f"rsv-{number}", "quantity": 1, "amount": 100, "status": status}


def refusal(reason: str, status: int = 409) -> tuple[int, dict[str, Any]]:
    return status, {"reason": reason, "status": status}


def good_server(ask: Ask) -> tuple[int, dict[str, Any]]:
    answers: dict[Step, tuple[int, dict[str, Any]]] = {
        Step.PURCHASE: grant(),
        Step.CONFIRM: (202, {"status": "settling"}),
        Step.EXTEND: (200, {"status": "active"}),
        Step.GIVE_BACK: (204, {}),
        Step.RESERVATION: (200, {"status": "confirmed"}),
        Step.ORDERS: (200, {"data": [{"order_id": "o", "reservation_id": "rsv-1", "status": "confirmed"}]}),
    }
    return answers[ask.step]


def test_a_buyer_holds_pays_watches_and_looks_at_the_order() -> None:
    stage = Stage(Plan(extends=True))
    stage.play(visit(stage.visitor), good_server)
    assert stage.steps() == ["purchase", "extend", "confirm", "reservation", "orders"]
    assert stage.testimony.ending is Ending.BOUGHT
    assert [one.status for one in stage.testimony.grants] == ["confirmed"]
    assert stage.testimony.odd == []


@pytest.mark.parametrize(
    ("plan", "steps", "ending"),
    [
        (Plan(with_cart=WithCart.ABANDON), ["purchase"], Ending.ABANDONED),
        (Plan(with_cart=WithCart.GIVE_BACK), ["purchase", "give_back"], Ending.GAVE_BACK),
    ],
)
def test_a_cart_may_be_forgotten_or_given_back(plan: Plan, steps: list[str], ending: Ending) -> None:
    stage = Stage(plan)
    stage.play(visit(stage.visitor), good_server)
    assert (stage.steps(), stage.testimony.ending) == (steps, ending)


def test_whoever_loses_the_answer_asks_again_under_the_same_key() -> None:
    stage = Stage(Plan(loses_reply=True, with_cart=WithCart.ABANDON))
    stage.play(visit(stage.visitor), good_server)
    first, second = stage.asked
    assert first.hang_up_s is not None
    assert (first.headers, first.body, second.hang_up_s) == (second.headers, second.body, None)
    assert len(stage.testimony.grants) == 1


def test_two_reservations_for_a_double_click_are_sworn_to() -> None:
    stage = Stage(Plan(double_click=True, with_cart=WithCart.ABANDON))
    stage.play(visit(stage.visitor), lambda _: grant(len(stage.asked)))
    assert stage.sworn == {"same_key_same_answer"}


def test_another_reservation_on_a_refresh_is_sworn_to() -> None:
    stage = Stage(Plan(refreshes=True, with_cart=WithCart.ABANDON))
    stage.play(visit(stage.visitor), lambda _: grant(len(stage.asked)))
    assert stage.sworn == {"same_key_same_answer"}


def test_whoever_finds_all_held_tries_again_and_gives_up_in_the_end() -> None:
    stage = Stage(Plan())
    stage.play(visit(stage.visitor), lambda _: refusal("all_held"))
    assert stage.testimony.ending is Ending.NOTHING_FREE
    assert len(stage.asked) > 5
    assert len({ask.headers for ask in stage.asked}) == 1


def test_sold_out_is_final_for_a_buyer_and_when_it_was_said_is_noted() -> None:
    stage = Stage(Plan())
    stage.play(visit(stage.visitor), lambda _: refusal("sold_out"))
    assert (stage.steps(), stage.testimony.ending) == (["purchase"], Ending.SOLD_OUT)
    assert stage.testimony.sold_out_at == stage.now


@pytest.mark.parametrize(("think_s", "sworn"), [(1.0, {"yes_kept"}), (30.0, set[str]())])
def test_a_hold_that_is_over_before_its_time_is_sworn_to(think_s: float, sworn: set[str]) -> None:
    stage = Stage(Plan(think_s=think_s))
    stage.play(
        visit(stage.visitor), lambda ask: grant() if ask.step is Step.PURCHASE else refusal("reservation_expired")
    )
    assert stage.testimony.ending is Ending.TOO_LATE
    assert stage.sworn == sworn


def test_units_that_get_lost_while_they_are_paid_for_are_sworn_to() -> None:
    stage = Stage(Plan())
    lost = {Step.RESERVATION: (200, {"status": "expired"})}
    stage.play(visit(stage.visitor), lambda ask: lost.get(ask.step) or good_server(ask))
    assert stage.sworn == {"yes_kept"}


def test_a_confirmed_sale_without_an_order_is_sworn_to() -> None:
    stage = Stage(Plan())
    none: dict[Step, tuple[int, dict[str, Any]]] = {Step.ORDERS: (200, {"data": []})}
    stage.play(visit(stage.visitor), lambda ask: none.get(ask.step) or good_server(ask))
    assert stage.sworn == {"yes_kept"}


def test_a_server_error_is_sworn_to_and_whoever_gets_no_answer_is_unsure() -> None:
    stage = Stage(Plan())
    stage.play(visit(stage.visitor), lambda _: refusal("internal_error", 500))
    assert stage.sworn == {"no_server_error"}
    silent = Stage(Plan())
    silent.play(visit(silent.visitor), lambda _: (0, {}))
    assert silent.testimony.ending is Ending.GAVE_UP
    assert silent.testimony.unsure


def test_a_declined_buyer_tries_another_card_under_another_key() -> None:
    stage = Stage(Plan(declined=True, second_card=True))

    def respond(ask: Ask) -> tuple[int, dict[str, Any]]:
        if ask.step is Step.RESERVATION:
            return 200, {"status": "failed" if stage.steps().count("purchase") == 1 else "confirmed"}
        return good_server(ask)

    stage.play(visit(stage.visitor), respond)
    cards = [b"pm_decline" in ask.body for ask in stage.asked if ask.step is Step.CONFIRM]
    assert cards == [True, False]
    assert stage.testimony.ending is Ending.BOUGHT


def test_bots_that_are_let_in_are_sworn_to() -> None:
    for bot, offer in ((BotKind.FORGED, OFFER), (BotKind.HAMMER, NO_ROOM)):
        stage = Stage(Plan(bot=bot, with_cart=WithCart.ABANDON), offer)
        stage.play(visit(stage.visitor), lambda _, stage=stage: grant(len(stage.asked)))  # type: ignore[misc]
        assert stage.sworn == {"bots_kept_out" if bot is BotKind.FORGED else "limits_kept"}


def ticket(arrival: int) -> str:
    return f"x.{base64.urlsafe_b64encode(json.dumps({'arrival': arrival}).encode()).decode()}.x"


def line_server(stage: Stage, serving_at: float, *, leave: int = 204, arrivals: tuple[int, ...] = (4,)) -> Respond:
    def respond(ask: Ask) -> tuple[int, dict[str, Any]]:
        if ask.step is Step.JOIN:
            arrival = arrivals[min(stage.steps().count("join"), len(arrivals)) - 1]
            return 200, {"ticket": ticket(arrival), "position": arrival + 1, "serving": 0}
        if ask.step is Step.NOW:
            return 200, {"state": "open", "serving": 99 if stage.now >= serving_at else 0, "next_poll_ms": 1000}
        if ask.step is Step.LEAVE:
            return leave, {}
        return 200, {"pass": "pass"}

    return respond


def test_a_buyer_polls_until_called_and_then_asks_for_a_pass() -> None:
    stage = Stage(Plan(), OFFER)
    given = stage.play(stand_in_line(stage.visitor), line_server(stage, serving_at=110.0))
    assert given == "pass"
    assert stage.steps()[0] == "join"
    assert stage.steps()[-1] == "admission"
    assert set(stage.steps()[1:-1]) == {"now"}
    [place] = stage.testimony.places
    assert (place.arrival, place.position) == (4, 5)
    assert place.admitted_at == stage.now


def test_whoever_leaves_and_comes_back_has_two_places() -> None:
    stage = Stage(Plan(in_line=InLine.COME_BACK, leave_after_s=2), OFFER)
    given = stage.play(stand_in_line(stage.visitor), line_server(stage, serving_at=120.0, arrivals=(4, 9)))
    assert given == "pass"
    assert [place.arrival for place in stage.testimony.places] == [4, 9]
    assert stage.testimony.odd == []


def test_whoever_was_not_heard_leaving_still_has_their_place_from_before() -> None:
    stage = Stage(Plan(in_line=InLine.COME_BACK, leave_after_s=2), OFFER)
    stage.play(stand_in_line(stage.visitor), line_server(stage, serving_at=400.0, leave=503))
    [place] = stage.testimony.places
    assert place.answered_at < 101
    assert stage.testimony.odd == []


def test_a_place_that_was_left_and_is_given_again_is_sworn_to() -> None:
    stage = Stage(Plan(in_line=InLine.COME_BACK, leave_after_s=2), OFFER)
    stage.play(stand_in_line(stage.visitor), line_server(stage, serving_at=120.0))
    assert stage.sworn == {"order_kept"}
