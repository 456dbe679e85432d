"""A simulated buyer: who they are, what they are offered, and how they retry a request."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.lab.load.buyer_tokens import BuyerTokens, authorization
from holdfast.lab.load.http import Request, Response
from holdfast.lab.rush.buyers.actions import Pause, Script, Step
from holdfast.lab.rush.buyers.behaviour import Behaviour
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending

# How long a buyer retries before giving up.
PATIENCE_S = 60.0
FIRST_PAUSE_S = 0.25


class Offer(Struct, frozen=True):
    """A sale as buyers see it. `opens_at` is on the monotonic clock."""

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


class BuyerContext(Struct, frozen=True):
    """State shared by all buyers of a process."""

    clock: Callable[[], float]
    chance: Callable[[], float]
    tokens: BuyerTokens
    service_key: str = ""
    patience_s: float = 30.0
    takes_fewer: bool = True


class Buyer:
    __slots__ = ("authorization", "behaviour", "context", "offer", "record")

    def __init__(self, record: BuyerRecord, behaviour: Behaviour, offer: Offer, context: BuyerContext) -> None:
        self.record, self.behaviour, self.offer, self.context = record, behaviour, offer, context
        self.authorization = authorization(context.tokens.sign(record.buyer_id))

    def sale_request(self, step: Step, method: str, action: str, headers: bytes = b"", body: bytes = b"") -> Request:
        return Request(step, method, f"/v1/sales/{self.offer.sale_id}/{action}", self.authorization + headers, body)

    def pause(self, seconds: float) -> Pause:
        """Adds jitter, so that buyers who got the same delay do not return together."""
        return Pause(seconds * (0.75 + 0.5 * self.context.chance()))

    def request(self, request: Request) -> Script[Response]:
        """Retries the request until it has a final response, or the buyer's patience ends."""
        until, pause_s = self.context.clock() + PATIENCE_S, FIRST_PAUSE_S
        while True:
            response: Response = yield request
            self.check(response, request)
            if not response.should_retry or self.context.clock() > until:
                return response
            yield self.pause(response.retry_after_s or pause_s)
            pause_s = min(2 * pause_s, 4.0)

    def check(self, response: Response, request: Request) -> None:
        if response.status >= 500 and response.status != 503:
            self.report_violation("no_server_error", f"{request.method} {request.path} was answered {response.status}")

    def report_violation(self, invariant: str, details: str) -> None:
        self.record.violations.append((invariant, details))

    def end(self, ending: Ending) -> None:
        self.record.ending = ending
