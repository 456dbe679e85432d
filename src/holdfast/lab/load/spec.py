"""What a driver sends, and its result."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.latency import Latency

# Replaced by the request's number, zero-padded to a fixed width.
NUMBER = "{number}"
_DIGITS = 12
# As the authorization header: each request gets another buyer's token.
BUYER = f"Bearer {NUMBER}"


class Load(Struct, frozen=True):
    """The same request repeated over persistent connections; only its number changes."""

    port: int
    method: str
    path: str
    body: str = ""
    authorization: str = ""
    connections: int = 256
    seconds: float = 1.0
    requests: int | None = None
    """Stop after this many requests instead of after `seconds`."""
    buyer_secret: str = ""
    """Signs buyers' tokens, which then replace the number."""
    rate_per_second: float | None = None
    """Send at this rate, regardless of responses (an open loop); otherwise send as responses arrive (a closed loop)."""
    patience_s: float | None = None
    """Open loop only: a request that waits this long for a free connection is dropped and counted."""
    keyed: bool = False
    """Send an idempotency key with each request."""

    @property
    def longest_s(self) -> float:
        """A load with a fixed number of requests is limited in time as well: no server worth testing answers fewer than
        a hundred per second."""
        return self.seconds if self.requests is None else 5.0 + self.requests / 100

    def filling(self) -> Callable[[int], bytes]:
        """The text to insert between the pieces of each request."""
        if not self.buyer_secret:
            return lambda number: numbered(number).encode()
        tokens = BuyerTokens(self.buyer_secret)
        return lambda number: tokens.sign(f"buyer-{number}")

    def pieces(self) -> list[str]:
        """The text of the request, split where its number belongs."""
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        if self.authorization:
            lines.append(f"Authorization: {self.authorization}")
        if self.keyed:
            lines.append(f"Idempotency-Key: {NUMBER}")
        if self.method != "GET" and not self.body:
            lines.append("Content-Length: 0")
        if self.body:
            length = len(self.body.replace(NUMBER, "0" * _DIGITS).encode())
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", self.body]).split(NUMBER)


def numbered(number: int) -> str:
    return f"{number:0{_DIGITS}}"


class LoadResult(Struct, frozen=True):
    good: int
    """2xx responses."""
    refused: int
    """All other responses."""
    elapsed_s: float
    failed: int = 0
    """Requests whose connection broke, or that timed out."""
    cut_off: int = 0
    """The maximum number of requests in flight when a driver stopped without waiting for them."""
    statuses: dict[int, int] = {}
    latency: Latency | None = None
    """Counted from the moment a request was due; in a closed loop, from the previous response."""
    given_up: int = 0
    """Requests that were never sent, because no connection was free in time; open loop only."""

    @property
    def per_second(self) -> float:
        return (self.good + self.refused) / self.elapsed_s
