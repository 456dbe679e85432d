"""What a driver sends, and what it was answered."""

import hmac
from collections.abc import Callable
from time import time

from msgspec import Struct

from holdfast.bench.rounds import Latency
from holdfast.signing import base64url

# Stands in a body for the number of the request, which is always written with as many digits.
NUMBER = "{number}"
_DIGITS = 12
# As the authorization: the token of another buyer with each request.
BUYER = f"Bearer {NUMBER}"
_BUYER_TOKENS_LAST_S = 3_600
_TOKEN_HEAD = base64url(b'{"alg":"HS256"}') + b"."


class Load(Struct, frozen=True):
    """The same request again and again over kept connections, but for its number."""

    port: int
    method: str
    path: str
    body: str = ""
    authorization: str = ""
    connections: int = 256
    seconds: float = 1.0
    requests: int | None = None
    """Stop after so many instead of after so many seconds."""
    buyer_secret: str = ""
    """Signs the buyers' tokens, where they belong into the request instead of its number."""
    rate_per_second: float | None = None
    """Send at this rate, whether answers come or not (an open loop), instead of as fast as they come."""
    patience_s: float | None = None
    """Of an open loop: who finds every connection taken for so long gives up, and is counted."""
    keyed: bool = False
    """With an idempotency key for each request."""

    @property
    def longest_s(self) -> float:
        """The time is bounded for a count, too: no server that is worth driving is slower than a hundred a second."""
        return self.seconds if self.requests is None else 5.0 + self.requests / 100

    def filling(self) -> Callable[[int], bytes]:
        """What goes between the pieces, for each request."""
        if not self.buyer_secret:
            return lambda number: numbered(number).encode()
        keyed, exp = hmac.new(self.buyer_secret.encode(), digestmod="sha256"), int(time()) + _BUYER_TOKENS_LAST_S

        def token(number: int) -> bytes:
            claims = base64url(b'{"sub":"buyer-%d","exp":%d}' % (number, exp))
            signed, mac = _TOKEN_HEAD + claims, keyed.copy()
            mac.update(signed)
            return signed + b"." + base64url(mac.digest())

        return token

    def pieces(self) -> list[str]:
        """The request as it goes over the wire, cut where its number belongs."""
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


class Answers(Struct, frozen=True):
    good: int
    """Answers of the 2xx kind."""
    refused: int
    """All other answers."""
    elapsed_s: float
    failed: int = 0
    """Requests whose connection broke, or that were not answered in time."""
    cut_off: int = 0
    """At most so many more may have been under way when a driver that does not wait for them stopped."""
    statuses: dict[int, int] = {}
    latency: Latency | None = None
    """Counted from the moment a request was due; an open loop only."""
    given_up: int = 0
    """Requests that were due and never sent, because every connection was taken for too long; an open loop only."""

    @property
    def per_second(self) -> float:
        return (self.good + self.refused) / self.elapsed_s
