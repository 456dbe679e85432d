"""How a buyer buys: reserves units under one key, then pays, hesitates, cancels, or abandons the cart."""

import msgspec

from holdfast.lab.load.buyer_tokens import authorization
from holdfast.lab.load.http import JSON, Request, Response
from holdfast.lab.rush.buyers.actions import Body, Script, Step, Together, body_of
from holdfast.lab.rush.buyers.behaviour import CartAction
from holdfast.lab.rush.buyers.buyer import Buyer
from holdfast.lab.rush.buyers.record import Ending, Grant

PAYMENT_PATIENCE_S = 180.0
FIRST_POLL_S, LONGEST_POLL_S = 0.5, 4.0
# Long enough that an abandoned request may or may not have been decided.
HANG_UP_S = 0.02
RETRY_HELD_S = 1.5
DECLINED_CARD, SECOND_CARD = "pm_decline", "pm_card"
_REFUSED = {
    "sold_out": Ending.SOLD_OUT,
    "buyer_limit": Ending.LIMIT,
    "hold_budget": Ending.LIMIT,
    "sale_ended": Ending.SALE_OVER,
    "admission_required": Ending.MISSED_TURN,
}


def buy(buyer: Buyer, given_pass: str) -> Script[None]:
    behaviour = buyer.behaviour
    grant = yield from _purchase(buyer, given_pass, "1", is_declined=behaviour.declined)
    if grant is None:
        return
    yield from complete_purchase(buyer, grant, is_declined=behaviour.declined)
    if buyer.record.ending is Ending.DECLINED and behaviour.second_card and buyer.offer.payment == "sandbox":
        grant = yield from _purchase(buyer, given_pass, "2", is_declined=False)
        if grant is not None:
            yield from complete_purchase(buyer, grant, is_declined=False)


def purchase_request(buyer: Buyer, given_pass: str, key: str, *, is_declined: bool = False) -> Request:
    limit = buyer.offer.per_buyer_limit
    quantity = buyer.behaviour.quantity if limit is None else min(buyer.behaviour.quantity, limit)
    body: dict[str, object] = {"quantity": quantity}
    if quantity > 1 and buyer.context.takes_fewer:
        body["min_quantity"] = 1
    if is_declined and buyer.offer.payment == "sandbox" and buyer.offer.checkout == "instant":
        body["payment_method"] = DECLINED_CARD
    headers = b"Idempotency-Key: %b\r\n" % key.encode() + JSON
    if given_pass:
        headers += b"Holdfast-Pass: %b\r\n" % given_pass.encode()
    return buyer.sale_request(Step.PURCHASE, "POST", "purchase", headers, msgspec.json.encode(body))


def _purchase(buyer: Buyer, given_pass: str, key: str, *, is_declined: bool) -> Script[Grant | None]:
    request = purchase_request(buyer, given_pass, key, is_declined=is_declined)
    asked_at = buyer.context.clock()
    until = max(asked_at, buyer.offer.opens_at) + buyer.context.patience_s
    first = yield from _click(buyer, request)
    while True:
        response = first or (yield from buyer.request(request))
        first, body = None, body_of(response)
        if response.status in (200, 201):
            grant = record_grant(buyer, body, asked_at, response.at)
            if buyer.behaviour.refreshes:
                yield from _refresh(buyer, request, grant)
            return grant
        ending = _refused(buyer, response, body, until)
        if ending is not None:
            buyer.end(ending)
            return None
        yield buyer.pause(_until_retry_s(buyer, body))


def _click(buyer: Buyer, request: Request) -> Script[Response | None]:
    """Sends the request twice or loses the response, if this buyer does so. Returns None if it has to be sent again."""
    if buyer.behaviour.loses_reply:
        yield msgspec.structs.replace(request, hang_up_s=HANG_UP_S * buyer.context.chance())
        return None
    if not buyer.behaviour.double_click:
        return None
    responses: list[Response] = yield Together((request, request))
    granted = [response for response in responses if response.status in (200, 201)]
    for response in responses:
        buyer.check(response, request)
    if len({body_of(response).reservation_id for response in granted}) > 1:
        buyer.report_violation("same_key_same_answer", "a double click under one key was granted two reservations")
    return granted[0] if granted else None


def record_grant(buyer: Buyer, body: Body, asked_at: float, answered_at: float) -> Grant:
    grant = Grant(body.reservation_id, body.quantity, body.amount, asked_at, answered_at, str(body.status))
    buyer.record.grants.append(grant)
    return grant


def _refresh(buyer: Buyer, request: Request, grant: Grant) -> Script[None]:
    response = yield from buyer.request(request)
    if response.status in (200, 201) and body_of(response).reservation_id != grant.reservation_id:
        buyer.report_violation(
            "same_key_same_answer", f"{grant.reservation_id} became {body_of(response).reservation_id}"
        )
    elif response.status == 201 or 400 <= response.status < 429:
        buyer.report_violation(
            "same_key_same_answer", f"a repeat was answered {response.status} {body_of(response).reason}"
        )


def _refused(buyer: Buyer, response: Response, body: Body, until: float) -> Ending | None:
    """Returns how the visit ends, or None to try again."""
    if body.reason == "sold_out":
        buyer.record.sold_out_at = response.at
    if body.reason in _REFUSED:
        return _REFUSED[body.reason]
    if body.reason in ("all_held", "insufficient_inventory", "sale_not_open", "sale_paused"):
        return Ending.NOTHING_FREE if buyer.context.clock() > until else None
    # Busy or unanswered until their patience ended: the buyer does not know the outcome.
    buyer.record.outcome_unknown = True
    return Ending.GAVE_UP


def _until_retry_s(buyer: Buyer, body: Body) -> float:
    if body.reason == "sale_not_open":
        return max(buyer.offer.opens_at - buyer.context.clock(), 0.2)
    return RETRY_HELD_S


def complete_purchase(buyer: Buyer, grant: Grant, *, is_declined: bool) -> Script[None]:
    """Pays for the granted units, or does not."""
    if buyer.offer.checkout == "instant":
        yield from _poll_payment(buyer, grant, is_declined)
    elif buyer.behaviour.cart_action is CartAction.ABANDON:
        buyer.end(Ending.ABANDONED)
    else:
        yield buyer.pause(buyer.behaviour.think_s)
        if buyer.behaviour.cart_action is CartAction.GIVE_BACK:
            yield from _give_back(buyer, grant)
        else:
            yield from _pay(buyer, grant, is_declined)


def _reservation_request(buyer: Buyer, step: Step, method: str, grant: Grant, action: str = "") -> Request:
    return Request(step, method, f"/v1/reservations/{grant.reservation_id}{action}", buyer.authorization)


def _give_back(buyer: Buyer, grant: Grant) -> Script[None]:
    response = yield from buyer.request(_reservation_request(buyer, Step.GIVE_BACK, "DELETE", grant))
    if response.status == 204:
        grant.status = "cancelled"
        buyer.end(Ending.GAVE_BACK)
    else:
        _note_too_late(buyer, grant, response)


def _pay(buyer: Buyer, grant: Grant, is_declined: bool) -> Script[None]:
    if buyer.behaviour.extends:
        body = b'{"ttl_seconds":%d}' % max(int(buyer.offer.hold_s), 1)
        extend = _reservation_request(buyer, Step.EXTEND, "POST", grant, "/extend")
        yield from buyer.request(msgspec.structs.replace(extend, headers=extend.headers + JSON, body=body))
    response = yield from buyer.request(_confirm_request(buyer, grant, is_declined))
    if response.status == 202:
        grant.status = "settling"
        yield from _poll_payment(buyer, grant, is_declined)
    elif response.status == 200:
        yield from _bought(buyer, grant)
    else:
        _note_too_late(buyer, grant, response)


def _confirm_request(buyer: Buyer, grant: Grant, is_declined: bool) -> Request:
    request = _reservation_request(buyer, Step.CONFIRM, "POST", grant, "/confirm")
    if buyer.offer.payment == "external":
        # Payment was taken externally; the shop confirms with its service key.
        return msgspec.structs.replace(request, headers=authorization(buyer.context.service_key))
    if buyer.behaviour.declined and buyer.offer.payment == "sandbox":
        # Without a method the server would charge the declined card again.
        body = b'{"payment_method":"%b"}' % (DECLINED_CARD if is_declined else SECOND_CARD).encode()
        return msgspec.structs.replace(request, headers=request.headers + JSON, body=body)
    return request


def _note_too_late(buyer: Buyer, grant: Grant, response: Response) -> None:
    """A hold starts when it is granted, which is never before it was requested."""
    body = body_of(response)
    if body.reason != "reservation_expired":
        if 400 <= response.status < 429:
            buyer.report_violation(
                "yes_kept", f"{grant.reservation_id} was refused with {response.status} {body.reason}"
            )
        buyer.end(Ending.GAVE_UP)
        return
    grant.status, grant.expired_at = "expired", response.at
    if response.at < grant.asked_at + buyer.offer.hold_s:
        buyer.report_violation("yes_kept", f"{grant.reservation_id} expired before its deadline")
    buyer.end(Ending.TOO_LATE)


def _poll_payment(buyer: Buyer, grant: Grant, is_declined: bool) -> Script[None]:
    """Polls until the payment has succeeded or was declined."""
    until, pause_s = buyer.context.clock() + PAYMENT_PATIENCE_S, FIRST_POLL_S
    while buyer.context.clock() < until:
        yield buyer.pause(pause_s)
        pause_s = min(1.5 * pause_s, LONGEST_POLL_S)
        response = yield from buyer.request(_reservation_request(buyer, Step.RESERVATION, "GET", grant))
        status = str(body_of(response).status) if response.status == 200 else ""
        if status == "confirmed":
            yield from _bought(buyer, grant)
            return
        if status == "active":
            # Declined: the units stay in the cart until the deadline.
            if buyer.behaviour.second_card:
                yield from _pay(buyer, grant, is_declined=False)
            else:
                yield from _remove_declined(buyer, grant)
            return
        if status and status != "settling":
            # A declined payment leaves a hold, which may have ended before this buyer polled again.
            if status != "failed" and not (is_declined and status == "expired"):
                buyer.report_violation("yes_kept", f"{grant.reservation_id} was being paid for and became {status}")
            grant.status = status
            buyer.end(Ending.DECLINED)
            return


def _remove_declined(buyer: Buyer, grant: Grant) -> Script[None]:
    """Empties the cart, because the buyer has no other card."""
    response = yield from buyer.request(_reservation_request(buyer, Step.GIVE_BACK, "DELETE", grant))
    grant.status = "cancelled" if response.status == 204 else "active"
    buyer.end(Ending.DECLINED)


def _bought(buyer: Buyer, grant: Grant) -> Script[None]:
    grant.status = "confirmed"
    buyer.end(Ending.BOUGHT)
    response = yield from buyer.request(Request(Step.ORDERS, "GET", "/v1/orders", buyer.authorization))
    own = {order.reservation_id for order in body_of(response).data}
    if response.status == 200 and grant.reservation_id not in own:
        buyer.report_violation("yes_kept", f"{grant.reservation_id} is confirmed, but its buyer has no order for it")
