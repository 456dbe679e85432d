"""How a buyer stands in line: joins, looks at `now` as often as told, and asks for a pass when their turn has come."""

import base64

import msgspec
from msgspec import Struct

from holdfast.rush.plan import InLine
from holdfast.rush.testimony import Ending, Standing
from holdfast.rush.visitor import JSON, Visitor, wants_patience
from holdfast.rush.wishes import Answer, Ask, Pause, Script, Solve, Step, Told

# Who misses their turn goes to the end of the line, and does not do that for ever.
JOINS_MAX = 3
AWAY_S = 3.0
OVER = frozenset({"sold_out", "ended"})


class _Claims(Struct):
    arrival: int


class Ticket(Struct):
    text: str
    standing: Standing

    @property
    def header(self) -> bytes:
        return b"Holdfast-Ticket: %b\r\n" % self.text.encode()


def stand_in_line(visitor: Visitor) -> Script[str]:
    """Gives a pass, or an empty text; then the testimony says how it ended."""
    may_leave = visitor.plan.in_line is not InLine.STAY
    for _ in range(JOINS_MAX):
        ticket = yield from _join(visitor)
        if ticket is None:
            return ""
        leaves_at = visitor.around.clock() + visitor.plan.leave_after_s if may_leave else float("inf")
        given = yield from _await_turn(visitor, ticket, leaves_at)
        if given or visitor.testimony.ending not in (Ending.MISSED_TURN, Ending.LEFT):
            return given
        if visitor.testimony.ending is Ending.LEFT:
            if visitor.plan.in_line is not InLine.COME_BACK:
                return ""
            may_leave = False
            yield visitor.pause(AWAY_S)
    return ""


def _join(visitor: Visitor) -> Script[Ticket | None]:
    asked_at = visitor.around.clock()
    body = b"{}"
    if visitor.offer.needs_proof:
        proof = yield from _prove(visitor)
        body = msgspec.json.encode({"proof": proof})
    answer = yield from visitor.persist(visitor.sale_ask(Step.JOIN, "POST", "queue", JSON, body))
    told = answer.told()
    if answer.status != 200:
        visitor.end(Ending.SALE_OVER if told.reason == "sale_ended" else Ending.GAVE_UP)
        return None
    standing = Standing(asked_at, answer.at, arrival_in(told.ticket), told.position)
    return Ticket(told.ticket, _note_place(visitor, standing))


def _note_place(visitor: Visitor, given: Standing) -> Standing:
    """Who could not be heard when they wanted to leave still has the place they had, from when they got it."""
    for known in visitor.testimony.places:
        if known.arrival == given.arrival:
            if known.is_left:
                visitor.swear("order_kept", f"{visitor.testimony.buyer_id} left, and was given the same place again")
            return known
    visitor.testimony.places.append(given)
    return given


def _prove(visitor: Visitor) -> Script[str]:
    answer = yield from visitor.persist(visitor.sale_ask(Step.CHALLENGE, "GET", "challenge"))
    if answer.status != 200:
        return ""
    proof: str = yield Solve(answer.body)
    return proof


def arrival_in(ticket: str) -> int:
    """The number under which the lottery knows its holder. Anyone can read it; only the server can write it."""
    payload = ticket.split(".")[1]
    return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims).arrival


def _await_turn(visitor: Visitor, ticket: Ticket, leaves_at: float) -> Script[str]:
    look = Ask(Step.NOW, "GET", f"/v1/sales/{visitor.offer.sale_id}/now")
    while True:
        now = (yield from visitor.persist(look)).told()
        if now.state in OVER:
            visitor.end(Ending.SOLD_OUT if now.state == "sold_out" else Ending.SALE_OVER)
            return ""
        if ticket.standing.position is None and now.lottery is not None and now.lottery.seed is not None:
            yield from _look_at_draw(visitor, ticket)
        if ticket.standing.position is not None and ticket.standing.position <= now.serving:
            answer = yield from _ask_for_pass(visitor, ticket)
            if answer is not None:
                return answer
        elif not now.state and leaves_at == float("inf"):
            visitor.end(Ending.GAVE_UP)
            return ""
        if visitor.around.clock() >= leaves_at:
            yield from _leave(visitor, ticket)
            return ""
        yield _until_next_look(visitor, now)


def _until_next_look(visitor: Visitor, now: Told) -> Pause:
    """As told: that long, and a random part of it."""
    return Pause(now.next_poll_ms / 1000 * (1 + visitor.around.chance()))


def _look_at_draw(visitor: Visitor, ticket: Ticket) -> Script[None]:
    answer = yield from visitor.persist(visitor.sale_ask(Step.STATUS, "GET", "queue/status", ticket.header))
    if answer.status == 200:
        ticket.standing.position = answer.told().position


def _ask_for_pass(visitor: Visitor, ticket: Ticket) -> Script[str | None]:
    """None: not yet."""
    answer: Answer = yield from visitor.persist(visitor.sale_ask(Step.ADMISSION, "POST", "admission", ticket.header))
    told = answer.told()
    if answer.status == 200:
        ticket.standing.admitted_at = answer.at
        return told.pass_
    if answer.status == 202:
        yield visitor.pause((told.retry_after_ms or 1_000) / 1000)
        return None
    if told.reason in ("pass_over", "place_given_up"):
        visitor.end(Ending.MISSED_TURN)
    elif told.reason == "sale_ended":
        visitor.end(Ending.SALE_OVER)
    else:
        if not wants_patience(answer):
            visitor.swear("tickets_honoured", f"a ticket was refused with {answer.status} {told.reason}")
        visitor.end(Ending.GAVE_UP)
    return ""


def _leave(visitor: Visitor, ticket: Ticket) -> Script[None]:
    if visitor.plan.in_line is InLine.VANISH:
        visitor.end(Ending.VANISHED)
        return
    answer = yield from visitor.persist(visitor.sale_ask(Step.LEAVE, "DELETE", "queue", ticket.header))
    ticket.standing.is_left = answer.status == 204
    visitor.end(Ending.LEFT)
