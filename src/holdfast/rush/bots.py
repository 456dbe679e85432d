"""Bots, and what they must not get. A ring of accounts buys as everyone does; the others try to get round the rules."""

from msgspec.structs import replace

from holdfast.rush.line import stand_in_line
from holdfast.rush.scenario import BotKind
from holdfast.rush.testimony import Ending, Grant
from holdfast.rush.till import buy, note_grant, purchase_ask, see_through
from holdfast.rush.tokens import Tokens
from holdfast.rush.visitor import JSON, Visitor
from holdfast.rush.wishes import Answer, Ask, Script, Step, Together

BURST = 8
BURSTS = 3
# Long enough to be a secret, and not the server's.
_FORGER = Tokens("a secret that nobody was given, ever")
_FORGED_PROOF = b'{"proof":"eyJjaGFsbGVuZ2UiOnt9fQ=="}'


def visit(visitor: Visitor) -> Script[None]:
    """The whole visit of anyone, person or bot."""
    bot = visitor.plan.bot
    if bot is BotKind.FORGED:
        yield from _forge(visitor)
    elif bot is BotKind.HAMMER:
        yield from _hammer(visitor)
    elif bot is BotKind.NO_PROOF and visitor.offer.needs_proof:
        yield from _skip_proof(visitor)
    else:
        given_pass = ""
        if visitor.offer.room != "off":
            given_pass = yield from stand_in_line(visitor)
            if not given_pass:
                return
        yield from buy(visitor, given_pass)


def must_get_nothing(bot: BotKind | None, *, has_room: bool, needs_proof: bool) -> bool:
    if bot is BotKind.HAMMER:
        return has_room
    return bot is BotKind.FORGED or (bot is BotKind.NO_PROOF and needs_proof)


def _forge(visitor: Visitor) -> Script[None]:
    """Tokens by another secret and by none; with a token of their own, a ticket and a pass that they made."""
    buyer_id = visitor.testimony.buyer_id
    plain = purchase_ask(visitor, "", "forged")
    for authorization in (_FORGER.authorization(buyer_id), _FORGER.unsigned(buyer_id)):
        yield from _must_be_refused(
            visitor, replace(plain, headers=plain.headers.replace(visitor.authorization, authorization))
        )
    if visitor.offer.room != "off":
        made = _FORGER.authorization(buyer_id).split()[-1]
        yield from _must_be_refused(visitor, purchase_ask(visitor, made.decode(), "forged pass"))
        ticket = b"Holdfast-Ticket: %b\r\n" % made
        yield from _must_be_refused(visitor, visitor.sale_ask(Step.ADMISSION, "POST", "admission", ticket))
    visitor.end(Ending.KEPT_OUT)


def _skip_proof(visitor: Visitor) -> Script[None]:
    yield from _must_be_refused(visitor, visitor.sale_ask(Step.JOIN, "POST", "queue", JSON, b"{}"))
    yield from _must_be_refused(visitor, visitor.sale_ask(Step.JOIN, "POST", "queue", JSON, _FORGED_PROOF))
    visitor.end(Ending.KEPT_OUT)


def _must_be_refused(visitor: Visitor, ask: Ask) -> Script[None]:
    answer = yield from visitor.persist(ask)
    if answer.status < 300 and answer.status:
        visitor.swear("bots_kept_out", f"a bot ({visitor.plan.bot}) was answered {answer.status} at {ask.path}")


def _hammer(visitor: Visitor) -> Script[None]:
    """Many purchases at once, each under a key of its own, and again at once."""
    granted: list[Grant] = []
    for burst in range(BURSTS):
        asks = tuple(purchase_ask(visitor, "", f"hammer-{burst}-{number}") for number in range(BURST))
        asked_at = visitor.around.clock()
        answers: list[Answer] = yield Together(asks)
        for answer, ask in zip(answers, asks, strict=True):
            visitor.check(answer, ask)
            if answer.status in (200, 201):
                granted.append(note_grant(visitor, answer.told(), asked_at, answer.at))
            visitor.testimony.unsure |= answer.status == 0
    limit = visitor.offer.per_buyer_limit
    if limit is not None and sum(grant.quantity for grant in granted) > limit:
        visitor.swear("limits_kept", f"{visitor.testimony.buyer_id} was granted more than {limit} at once")
    visitor.end(Ending.LIMIT if granted else Ending.KEPT_OUT)
    for grant in granted:
        yield from see_through(visitor, grant, is_declined=False)
