"""A whole visit, by a person or a bot. A ring of accounts buys as people do; the other bots try to bypass the rules."""

from msgspec.structs import replace

from holdfast.lab.load.buyer_tokens import BuyerTokens, authorization
from holdfast.lab.load.http import JSON, Request, Response
from holdfast.lab.rush.buyers.actions import Script, Step, Together, body_of
from holdfast.lab.rush.buyers.buyer import Buyer
from holdfast.lab.rush.buyers.checkout import buy, complete_purchase, purchase_request, record_grant
from holdfast.lab.rush.buyers.record import Ending, Grant
from holdfast.lab.rush.buyers.waiting_room import open_page, wait_in_line
from holdfast.lab.scenarios.scenario import HAMMER_BURST, HAMMER_BURSTS, BotKind

# Long enough for a secret, but not the server's.
_FORGED = BuyerTokens("a secret that no server was ever given")
_FORGED_PROOF = b'{"proof":"eyJjaGFsbGVuZ2UiOnt9fQ=="}'


def visit(buyer: Buyer) -> Script[None]:
    bot = buyer.behaviour.bot
    if bot is BotKind.FORGED:
        yield from _forge(buyer)
    elif bot is BotKind.HAMMER:
        yield from _hammer(buyer)
    elif bot is BotKind.NO_PROOF and buyer.offer.needs_proof:
        yield from _skip_proof(buyer)
    elif (yield from open_page(buyer)):
        given_pass = ""
        if buyer.offer.room != "off":
            given_pass = yield from wait_in_line(buyer)
            if not given_pass:
                return
        yield from buy(buyer, given_pass)


def must_be_refused(bot: BotKind | None, *, has_room: bool, needs_proof: bool) -> bool:
    if bot is BotKind.HAMMER:
        return has_room
    return bot is BotKind.FORGED or (bot is BotKind.NO_PROOF and needs_proof)


def _forge(buyer: Buyer) -> Script[None]:
    """Tries tokens signed with another secret and unsigned ones; then, with a valid token, a forged ticket and pass."""
    buyer_id = buyer.record.buyer_id
    plain = purchase_request(buyer, "", "forged")
    for token in (_FORGED.sign(buyer_id), _FORGED.unsigned(buyer_id)):
        headers = plain.headers.replace(buyer.authorization, authorization(token))
        yield from _must_be_refused(buyer, replace(plain, headers=headers))
    if buyer.offer.room != "off":
        forged = _FORGED.sign(buyer_id)
        yield from _must_be_refused(buyer, purchase_request(buyer, forged.decode(), "forged pass"))
        ticket = b"Holdfast-Ticket: %b\r\n" % forged
        yield from _must_be_refused(buyer, buyer.sale_request(Step.ADMISSION, "POST", "admission", ticket))
    buyer.end(Ending.KEPT_OUT)


def _skip_proof(buyer: Buyer) -> Script[None]:
    yield from _must_be_refused(buyer, buyer.sale_request(Step.JOIN, "POST", "queue", JSON, b"{}"))
    yield from _must_be_refused(buyer, buyer.sale_request(Step.JOIN, "POST", "queue", JSON, _FORGED_PROOF))
    buyer.end(Ending.KEPT_OUT)


def _must_be_refused(buyer: Buyer, request: Request) -> Script[None]:
    response = yield from buyer.request(request)
    if response.status < 300 and response.status:
        details = f"a bot ({buyer.behaviour.bot}) was answered {response.status} at {request.path}"
        buyer.report_violation("bots_kept_out", details)


def _hammer(buyer: Buyer) -> Script[None]:
    """Sends several bursts of purchases, each purchase with its own key."""
    granted: list[Grant] = []
    for burst in range(HAMMER_BURSTS):
        requests = tuple(purchase_request(buyer, "", f"hammer-{burst}-{number}") for number in range(HAMMER_BURST))
        asked_at = buyer.context.clock()
        responses: list[Response] = yield Together(requests)
        for response, request in zip(responses, requests, strict=True):
            buyer.check(response, request)
            if response.status in (200, 201):
                granted.append(record_grant(buyer, body_of(response), asked_at, response.at))
            buyer.record.outcome_unknown |= response.status == 0
    limit = buyer.offer.per_buyer_limit
    if limit is not None and _most_at_once(granted, buyer.offer.hold_s) > limit:
        buyer.report_violation("limits_kept", f"{buyer.record.buyer_id} was granted more than {limit} at once")
    buyer.end(Ending.LIMIT if granted else Ending.KEPT_OUT)
    for grant in granted:
        yield from complete_purchase(buyer, grant, is_declined=False)


def _most_at_once(granted: list[Grant], hold_s: float) -> int:
    """The most units that were certainly held at the same time. A slow server may let earlier holds expire between two
    bursts, so this counts only what is certain: a hold had begun when its response arrived, and lasts at least `hold_s`
    from its request."""
    return max(
        (
            sum(other.quantity for other in granted if other.answered_at <= grant.answered_at < other.asked_at + hold_s)
            for grant in granted
        ),
        default=0,
    )
