"""How a buyer buys: asks for units under one key, and then pays, hesitates, gives them back, or forgets about them."""

import msgspec

from holdfast.rush.plan import WithCart
from holdfast.rush.testimony import Ending, Grant
from holdfast.rush.visitor import JSON, Visitor
from holdfast.rush.wishes import Answer, Ask, Script, Step, Together, Told

PAYING_PATIENCE_S = 180.0
FIRST_LOOK_S, LATEST_LOOK_S = 0.5, 4.0
# In which a request whose caller hangs up may have been decided, or not.
HANG_UP_S = 0.02
RETRY_HELD_S = 1.5
DECLINED_CARD = "pm_decline"
_REFUSED = {
    "sold_out": Ending.SOLD_OUT,
    "buyer_limit": Ending.LIMIT,
    "hold_budget": Ending.LIMIT,
    "sale_ended": Ending.SALE_OVER,
    "admission_required": Ending.MISSED_TURN,
}


def buy(visitor: Visitor, given_pass: str) -> Script[None]:
    plan = visitor.plan
    grant = yield from _purchase(visitor, given_pass, "1", is_declined=plan.declined)
    if grant is None:
        return
    yield from see_through(visitor, grant, is_declined=plan.declined)
    if visitor.testimony.ending is Ending.DECLINED and plan.second_card and visitor.offer.payment == "sandbox":
        grant = yield from _purchase(visitor, given_pass, "2", is_declined=False)
        if grant is not None:
            yield from see_through(visitor, grant, is_declined=False)


def purchase_ask(visitor: Visitor, given_pass: str, key: str, *, is_declined: bool = False) -> Ask:
    limit = visitor.offer.per_buyer_limit
    quantity = visitor.plan.quantity if limit is None else min(visitor.plan.quantity, limit)
    body: dict[str, object] = {"quantity": quantity}
    if quantity > 1 and visitor.around.takes_fewer:
        body["min_quantity"] = 1
    if is_declined and visitor.offer.payment == "sandbox" and visitor.offer.checkout == "instant":
        body["payment_method"] = DECLINED_CARD
    headers = b"Idempotency-Key: %b\r\n" % key.encode() + JSON
    if given_pass:
        headers += b"Holdfast-Pass: %b\r\n" % given_pass.encode()
    return visitor.sale_ask(Step.PURCHASE, "POST", "purchase", headers, msgspec.json.encode(body))


def _purchase(visitor: Visitor, given_pass: str, key: str, *, is_declined: bool) -> Script[Grant | None]:
    ask = purchase_ask(visitor, given_pass, key, is_declined=is_declined)
    asked_at = visitor.around.clock()
    until = max(asked_at, visitor.offer.opens_at) + visitor.around.patience_s
    first = yield from _click(visitor, ask)
    while True:
        answer = first or (yield from visitor.persist(ask))
        first, told = None, answer.told()
        if answer.status in (200, 201):
            grant = note_grant(visitor, told, asked_at, answer.at)
            if visitor.plan.refreshes:
                yield from _refresh(visitor, ask, grant)
            return grant
        ending = _refused(visitor, answer, told, until)
        if ending is not None:
            visitor.end(ending)
            return None
        yield visitor.pause(_until_retry_s(visitor, told))


def _click(visitor: Visitor, ask: Ask) -> Script[Answer | None]:
    """Once; or twice at once, or with the answer lost. None if it has to be asked again."""
    if visitor.plan.loses_reply:
        yield msgspec.structs.replace(ask, hang_up_s=HANG_UP_S * visitor.around.chance())
        return None
    if not visitor.plan.double_click:
        return None
    answers: list[Answer] = yield Together((ask, ask))
    granted = [answer for answer in answers if answer.status in (200, 201)]
    for answer in answers:
        visitor.check(answer, ask)
    if len({answer.told().reservation_id for answer in granted}) > 1:
        visitor.swear("same_key_same_answer", "a double click under one key was granted two reservations")
    return granted[0] if granted else None


def note_grant(visitor: Visitor, told: Told, asked_at: float, answered_at: float) -> Grant:
    grant = Grant(told.reservation_id, told.quantity, told.amount, asked_at, answered_at, str(told.status))
    visitor.testimony.grants.append(grant)
    return grant


def _refresh(visitor: Visitor, ask: Ask, grant: Grant) -> Script[None]:
    answer = yield from visitor.persist(ask)
    if answer.status in (200, 201) and answer.told().reservation_id != grant.reservation_id:
        visitor.swear("same_key_same_answer", f"{grant.reservation_id} became {answer.told().reservation_id}")
    elif answer.status == 201 or 400 <= answer.status < 429:
        visitor.swear("same_key_same_answer", f"a repeat was answered {answer.status} {answer.told().reason}")


def _refused(visitor: Visitor, answer: Answer, told: Told, until: float) -> Ending | None:
    """How it ends; None to try again."""
    if told.reason == "sold_out":
        visitor.testimony.sold_out_at = answer.at
    if told.reason in _REFUSED:
        return _REFUSED[told.reason]
    if told.reason in ("all_held", "insufficient_inventory", "sale_not_open", "sale_paused"):
        return Ending.NOTHING_FREE if visitor.around.clock() > until else None
    # Not answered, or told to come again, for as long as they had patience: what became of it they do not know.
    visitor.testimony.unsure = True
    return Ending.GAVE_UP


def _until_retry_s(visitor: Visitor, told: Told) -> float:
    if told.reason == "sale_not_open":
        return max(visitor.offer.opens_at - visitor.around.clock(), 0.2)
    return RETRY_HELD_S


def see_through(visitor: Visitor, grant: Grant, *, is_declined: bool) -> Script[None]:
    """What becomes of units that were granted."""
    if visitor.offer.checkout == "instant":
        yield from _watch(visitor, grant)
    elif visitor.plan.with_cart is WithCart.ABANDON:
        visitor.end(Ending.ABANDONED)
    else:
        yield visitor.pause(visitor.plan.think_s)
        if visitor.plan.with_cart is WithCart.GIVE_BACK:
            yield from _give_back(visitor, grant)
        else:
            yield from _pay(visitor, grant, is_declined)


def _reservation_ask(visitor: Visitor, step: Step, method: str, grant: Grant, action: str = "") -> Ask:
    return Ask(step, method, f"/v1/reservations/{grant.reservation_id}{action}", visitor.authorization)


def _give_back(visitor: Visitor, grant: Grant) -> Script[None]:
    answer = yield from visitor.persist(_reservation_ask(visitor, Step.GIVE_BACK, "DELETE", grant))
    if answer.status == 204:
        grant.status = "cancelled"
        visitor.end(Ending.GAVE_BACK)
    else:
        _note_too_late(visitor, grant, answer)


def _pay(visitor: Visitor, grant: Grant, is_declined: bool) -> Script[None]:
    if visitor.plan.extends:
        body = b'{"ttl_seconds":%d}' % max(int(visitor.offer.hold_s), 1)
        extend = _reservation_ask(visitor, Step.EXTEND, "POST", grant, "/extend")
        yield from visitor.persist(msgspec.structs.replace(extend, headers=extend.headers + JSON, body=body))
    answer = yield from visitor.persist(_confirm_ask(visitor, grant, is_declined))
    if answer.status == 202:
        grant.status = "settling"
        yield from _watch(visitor, grant)
    elif answer.status == 200:
        yield from _bought(visitor, grant)
    else:
        _note_too_late(visitor, grant, answer)


def _confirm_ask(visitor: Visitor, grant: Grant, is_declined: bool) -> Ask:
    ask = _reservation_ask(visitor, Step.CONFIRM, "POST", grant, "/confirm")
    if visitor.offer.payment == "external":
        # The shop took the money itself, and says so with its own key.
        return msgspec.structs.replace(
            ask, headers=b"Authorization: Bearer %b\r\n" % visitor.around.service_key.encode()
        )
    if is_declined and visitor.offer.payment == "sandbox":
        body = b'{"payment_method":"%b"}' % DECLINED_CARD.encode()
        return msgspec.structs.replace(ask, headers=ask.headers + JSON, body=body)
    return ask


def _note_too_late(visitor: Visitor, grant: Grant, answer: Answer) -> None:
    """Their time began when they were granted it, which was not before they asked."""
    told = answer.told()
    if told.reason != "reservation_expired":
        if 400 <= answer.status < 429:
            visitor.swear("yes_kept", f"{grant.reservation_id} was refused with {answer.status} {told.reason}")
        visitor.end(Ending.GAVE_UP)
        return
    grant.status, grant.expired_at = "expired", answer.at
    if answer.at < grant.asked_at + visitor.offer.hold_s:
        visitor.swear("yes_kept", f"{grant.reservation_id} was over before its time")
    visitor.end(Ending.TOO_LATE)


def _watch(visitor: Visitor, grant: Grant) -> Script[None]:
    """Until the payment has ended one way or the other."""
    until, pause_s = visitor.around.clock() + PAYING_PATIENCE_S, FIRST_LOOK_S
    while visitor.around.clock() < until:
        yield visitor.pause(pause_s)
        pause_s = min(1.5 * pause_s, LATEST_LOOK_S)
        answer = yield from visitor.persist(_reservation_ask(visitor, Step.RESERVATION, "GET", grant))
        status = str(answer.told().status) if answer.status == 200 else ""
        if status == "confirmed":
            yield from _bought(visitor, grant)
            return
        if status and status != "settling":
            if status != "failed":
                visitor.swear("yes_kept", f"{grant.reservation_id} was being paid for and became {status}")
            grant.status = status
            visitor.end(Ending.DECLINED)
            return


def _bought(visitor: Visitor, grant: Grant) -> Script[None]:
    grant.status = "confirmed"
    visitor.end(Ending.BOUGHT)
    answer = yield from visitor.persist(Ask(Step.ORDERS, "GET", "/v1/orders", visitor.authorization))
    mine = {order.reservation_id for order in answer.told().data}
    if answer.status == 200 and grant.reservation_id not in mine:
        visitor.swear("yes_kept", f"{grant.reservation_id} is confirmed, and its buyer has no order of it")
