"""Who a simulated buyer is, and how they ask: again after a lost connection, and later when told to come later."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.rush.plan import Plan
from holdfast.rush.testimony import Ending, Testimony
from holdfast.rush.tokens import Tokens
from holdfast.rush.wishes import Answer, Ask, Pause, Script, Step

# How long people put up with "come again" before they leave.
PATIENCE_S = 60.0
FIRST_PAUSE_S = 0.25
JSON = b"Content-Type: application/json\r\n"


class Offer(Struct, frozen=True):
    """A sale as its buyers know it. `opens_at` is by the clock of the rush."""

    sale_id: str
    sku_id: str
    total_units: int
    checkout: str
    payment: str
    price: int
    currency: str
    room: str
    needs_proof: bool
    per_buyer_limit: int | None
    hold_s: float
    opens_at: float


class Surroundings(Struct, frozen=True):
    """What all visitors of a process share."""

    clock: Callable[[], float]
    chance: Callable[[], float]
    tokens: Tokens
    service_key: str = ""
    patience_s: float = 30.0
    takes_fewer: bool = True


class Visitor:
    __slots__ = ("around", "authorization", "offer", "plan", "testimony")

    def __init__(self, testimony: Testimony, plan: Plan, offer: Offer, around: Surroundings) -> None:
        self.testimony, self.plan, self.offer, self.around = testimony, plan, offer, around
        self.authorization = around.tokens.authorization(testimony.buyer_id)

    def sale_ask(self, step: Step, method: str, action: str, headers: bytes = b"", body: bytes = b"") -> Ask:
        return Ask(step, method, f"/v1/sales/{self.offer.sale_id}/{action}", self.authorization + headers, body)

    def pause(self, seconds: float) -> Pause:
        """About so long: those who were told the same do not all come back together."""
        return Pause(seconds * (0.75 + 0.5 * self.around.chance()))

    def persist(self, ask: Ask) -> Script[Answer]:
        """Asks until there is an answer that settles it, or patience is at an end."""
        until, pause_s = self.around.clock() + PATIENCE_S, FIRST_PAUSE_S
        while True:
            answer: Answer = yield ask
            self.check(answer, ask)
            if not wants_patience(answer) or self.around.clock() > until:
                return answer
            yield self.pause(answer.retry_after_s or pause_s)
            pause_s = min(2 * pause_s, 4.0)

    def check(self, answer: Answer, ask: Ask) -> None:
        if answer.status >= 500 and answer.status != 503:
            self.swear("no_server_error", f"{ask.method} {ask.path} was answered {answer.status}")

    def swear(self, invariant: str, what: str) -> None:
        self.testimony.odd.append((invariant, what))

    def end(self, ending: Ending) -> None:
        self.testimony.ending = ending


def wants_patience(answer: Answer) -> bool:
    """429 is also said to those who come without a pass; to ask that again changes nothing."""
    return answer.status in (0, 503) or (answer.status == 429 and b'"rate_limited"' in answer.body)
