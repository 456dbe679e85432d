"""How a buyer queues: joins, polls `now` at the interval it is given, and claims a pass when their turn comes.

An overloaded server stamps the arrival and responds with a provisional ticket. The buyer then uses it to ask for the
place after every poll, as the page does.
"""

import base64

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.lab.load.http import JSON, Request, Response
from holdfast.lab.rush.buyers.actions import Body, Pause, Script, Solve, Step, body_of
from holdfast.lab.rush.buyers.behaviour import QueueBehaviour
from holdfast.lab.rush.buyers.buyer import Buyer
from holdfast.lab.rush.buyers.record import Ending, QueuePlace

# A buyer who misses their turn rejoins at the end of the queue, but not forever.
JOINS_MAX = 3
AWAY_S = 3.0
_OVER = frozenset({"sold_out", "ended"})
_ENDINGS = {"sold_out": Ending.SOLD_OUT, "sale_ended": Ending.SALE_OVER}
_MISSED = frozenset({"pass_expired", "place_released"})


class _Claims(Struct):
    arrival: int = -1
    entry: int | None = None


class Ticket(Struct):
    text: str
    place: QueuePlace
    is_provisional: bool = False

    @property
    def header(self) -> bytes:
        return b"Holdfast-Ticket: %b\r\n" % self.text.encode()


def open_page(buyer: Buyer) -> Script[bool]:
    """Returns whether there is still something to buy, according to the page."""
    if not buyer.behaviour.looks_first:
        return True
    now = body_of((yield from buyer.request(replace(_poll(buyer), step=Step.OPEN))))
    if now.state in _OVER:
        _end_over(buyer, now)
        return False
    return True


def wait_in_line(buyer: Buyer) -> Script[str]:
    """Returns a pass, or an empty string if the visit has ended; the record says how."""
    may_leave = buyer.behaviour.in_line is not QueueBehaviour.STAY
    for _ in range(JOINS_MAX):
        ticket = yield from _join(buyer)
        if ticket is None:
            return ""
        leaves_at = buyer.context.clock() + buyer.behaviour.leave_after_s if may_leave else float("inf")
        given = yield from _await_turn(buyer, ticket, leaves_at)
        if given or buyer.record.ending not in (Ending.MISSED_TURN, Ending.LEFT):
            return given
        if buyer.record.ending is Ending.LEFT:
            if buyer.behaviour.in_line is not QueueBehaviour.COME_BACK:
                return ""
            may_leave = False
            yield buyer.pause(AWAY_S)
    return ""


def _join(buyer: Buyer) -> Script[Ticket | None]:
    asked_at = buyer.context.clock()
    sent = b"{}"
    if buyer.offer.needs_proof:
        proof = yield from _prove(buyer)
        sent = msgspec.json.encode({"proof": proof})
    response = yield from buyer.request(buyer.sale_request(Step.JOIN, "POST", "queue", JSON, sent))
    body = body_of(response)
    if response.status == 202:
        # The place is recorded once it is known.
        return Ticket(body.ticket, QueuePlace(asked_at, response.at, -1, stamped_at=response.at), is_provisional=True)
    if response.status != 200:
        buyer.end(_ENDINGS.get(body.reason, Ending.GAVE_UP))
        return None
    claims = _claims_of(body.ticket)
    place = QueuePlace(asked_at, response.at, claims.arrival, body.position, entry=claims.entry)
    return Ticket(body.ticket, _record_place(buyer, place))


def _record_place(buyer: Buyer, given: QueuePlace) -> QueuePlace:
    """If a buyer's request to leave got no response, they still have their old place, with its old times."""
    for known in buyer.record.places:
        if known.arrival == given.arrival:
            if known.is_left:
                buyer.report_violation("order_kept", f"{buyer.record.buyer_id} left and got the same place again")
            return known
    buyer.record.places.append(given)
    return given


def _prove(buyer: Buyer) -> Script[str]:
    response = yield from buyer.request(buyer.sale_request(Step.CHALLENGE, "GET", "challenge"))
    if response.status != 200:
        return ""
    proof: str = yield Solve(response.body)
    return proof


def _claims_of(ticket: str) -> _Claims:
    payload = ticket.split(".")[1]
    return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)


def _await_turn(buyer: Buyer, ticket: Ticket, leaves_at: float) -> Script[str]:
    poll = _poll(buyer)
    while True:
        now = body_of((yield from buyer.request(poll)))
        if now.state in _OVER:
            _end_over(buyer, now)
            return ""
        if ticket.is_provisional and not (yield from _exchange(buyer, ticket)):
            return ""
        if ticket.place.position is None and now.lottery is not None and now.lottery.seed is not None:
            yield from _read_drawn_position(buyer, ticket)
        if ticket.place.position is not None and ticket.place.position <= now.serving:
            pass_ = yield from _claim_pass(buyer, ticket)
            if pass_ is not None:
                return pass_
        elif not now.state and leaves_at == float("inf"):
            buyer.end(Ending.GAVE_UP)
            return ""
        if buyer.context.clock() >= leaves_at:
            yield from _leave(buyer, ticket)
            return ""
        yield _until_next_poll(buyer, now)


def _poll(buyer: Buyer) -> Request:
    return Request(Step.NOW, "GET", f"/v1/sales/{buyer.offer.sale_id}/now")


def _end_over(buyer: Buyer, now: Body) -> None:
    buyer.end(Ending.SOLD_OUT if now.state == "sold_out" else Ending.SALE_OVER)


def _until_next_poll(buyer: Buyer, now: Body) -> Pause:
    """The interval the server gave, plus a random share of it."""
    return Pause(now.next_poll_ms / 1000 * (1 + buyer.context.chance()))


def _exchange(buyer: Buyer, ticket: Ticket) -> Script[bool]:
    """Exchanges a provisional ticket for a place, if there is one yet. Returns whether to keep waiting."""
    response = yield from buyer.request(buyer.sale_request(Step.STATUS, "GET", "queue/status", ticket.header))
    body = body_of(response)
    if response.status == 200:
        claims = _claims_of(body.ticket)
        place = replace(
            ticket.place, answered_at=response.at, arrival=claims.arrival, position=body.position, entry=claims.entry
        )
        ticket.text, ticket.place, ticket.is_provisional = body.ticket, _record_place(buyer, place), False
    elif response.status != 202 and not response.should_retry:
        _end_refused(buyer, response, body)
        return False
    return True


def _read_drawn_position(buyer: Buyer, ticket: Ticket) -> Script[None]:
    response = yield from buyer.request(buyer.sale_request(Step.STATUS, "GET", "queue/status", ticket.header))
    if response.status == 200:
        body = body_of(response)
        ticket.place.position, ticket.place.entry = body.position, _claims_of(body.ticket).entry


def _claim_pass(buyer: Buyer, ticket: Ticket) -> Script[str | None]:
    """Returns the pass, or None if it is too early."""
    request = buyer.sale_request(Step.ADMISSION, "POST", "admission", ticket.header)
    response: Response = yield from buyer.request(request)
    body = body_of(response)
    if response.status == 200:
        ticket.place.admitted_at = response.at
        return body.pass_
    if response.status == 202:
        yield buyer.pause((body.retry_after_ms or 1_000) / 1000)
        return None
    _end_refused(buyer, response, body)
    return ""


def _end_refused(buyer: Buyer, response: Response, body: Body) -> None:
    if body.reason in _MISSED:
        buyer.end(Ending.MISSED_TURN)
    elif body.reason in _ENDINGS:
        buyer.end(_ENDINGS[body.reason])
    else:
        if not response.should_retry:
            buyer.report_violation("tickets_honoured", f"a ticket was refused with {response.status} {body.reason}")
        buyer.end(Ending.GAVE_UP)


def _leave(buyer: Buyer, ticket: Ticket) -> Script[None]:
    if buyer.behaviour.in_line is QueueBehaviour.VANISH:
        buyer.end(Ending.VANISHED)
        return
    response = yield from buyer.request(buyer.sale_request(Step.LEAVE, "DELETE", "queue", ticket.header))
    ticket.place.is_left = response.status == 204
    buyer.end(Ending.LEFT)
