"""Who may go on to the shop, and what the others are told; the same for ASGI and WSGI."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from posixpath import normpath
from time import time
from urllib.parse import quote

from holdfast.connect.keys import KeysUnknown, PublishedKeys
from holdfast.connect.passes import Pass, is_in_time, key_id_of, read_pass

HEADER = "holdfast-pass"
COOKIE = "holdfast_pass"
REMEMBERED_MAX = 10_000

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Visit:
    """What a request says, with names of headers in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Refusal:
    status: int
    headers: Headers
    body: bytes


# Who is signed in, as the shop knows it; None for nobody.
BuyerOf = Callable[[Visit], str | None]


class Gatekeeper:
    def __init__(
        self,
        sale_id: str,
        keys: PublishedKeys,
        *,
        paths: Sequence[str] = ("/",),
        waiting_url: str | None = None,
        buyer_of: BuyerOf | None = None,
        cookie: str = COOKIE,
    ) -> None:
        """`paths` are prefixes of what needs a pass; `waiting_url` is where browsers without one are sent."""
        self._sale_id = sale_id
        self.keys = keys
        self._paths = tuple(paths)
        self._waiting_url = waiting_url
        self._buyer_of = buyer_of
        self._cookie = cookie
        self._known: dict[str, Pass] = {}

    def guards(self, path: str) -> bool:
        """However the path is written: what a framework takes for the same must be guarded the same."""
        plain = normpath("/" + path.lstrip("/"))
        return any(plain == prefix or plain.startswith(prefix.rstrip("/") + "/") for prefix in self._paths)

    def needs_fetch(self, visit: Visit) -> bool:
        """Whether keys have to be fetched before this visit can be judged."""
        token = self._token(visit)
        key_id = None if token is None or token in self._known else key_id_of(token)
        return key_id is not None and self.keys.needs_fetch(key_id)

    def judge(self, visit: Visit) -> Pass | Refusal:
        token = self._token(visit)
        if token is None:
            return self._send_away(visit)
        try:
            known = self._read(token)
        except KeysUnknown:
            return _problem(503, "not_ready", "Not ready", "Passes cannot be checked at the moment; try again shortly.")
        if known is None or known.sale_id != self._sale_id or not self._is_theirs(known, visit):
            return self._send_away(visit)
        return known

    def _read(self, token: str) -> Pass | None:
        known = self._known.get(token)
        if known is None:
            known = read_pass(token, self.keys.all(), time()) if key_id_of(token) is not None else None
            if known is not None:
                self._remember(token, known)
        return known if known is not None and is_in_time(known.expires_at, time()) else None

    def _remember(self, token: str, known: Pass) -> None:
        """Checking a signature takes a good part of a millisecond, and a buyer comes back many times."""
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[token] = known

    def _is_theirs(self, known: Pass, visit: Visit) -> bool:
        return self._buyer_of is None or self._buyer_of(visit) == known.buyer_id

    def _token(self, visit: Visit) -> str | None:
        given = visit.headers.get(HEADER)
        if given:
            return given
        # By hand: the library stops at the first cookie that it does not like, which may be anybody's.
        cookies = (part.strip().partition("=") for part in visit.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie and value), None)

    def _send_away(self, visit: Visit) -> Refusal:
        wants_page = visit.method in ("GET", "HEAD") and "text/html" in visit.headers.get("accept", "")
        if self._waiting_url is None or not wants_page:
            detail = f"This has a waiting room: sale {self._sale_id}. Send a valid `Holdfast-Pass`."
            return _problem(429, "admission_required", "Wait for your turn", detail)
        # Only ever a path of this shop, so that nobody can be sent elsewhere by a link to us.
        back = quote("/" + visit.path.lstrip("/") + (f"?{visit.query}" if visit.query else ""), safe="")
        joint = "&" if "?" in self._waiting_url else "?"
        location = f"{self._waiting_url}{joint}return_to={back}"
        return Refusal(303, [("location", location), ("cache-control", "no-store"), ("content-length", "0")], b"")


def _problem(status: int, reason: str, title: str, detail: str) -> Refusal:
    told = {"type": f"urn:holdfast:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}
    body = json.dumps(told).encode()
    headers = [
        ("content-type", "application/problem+json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("retry-after", str(random.randint(1, 3))),
    ]
    return Refusal(status, headers, body)
