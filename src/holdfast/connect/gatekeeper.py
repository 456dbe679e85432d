"""Decides which requests are admitted, and how the others are answered. Shared by ASGI and WSGI."""

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
    """The relevant parts of a request, with header names in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Refusal:
    status: int
    headers: Headers
    body: bytes


# Returns the ID of the signed-in user of the shop, or None.
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
        """`paths` are the path prefixes that need a pass. Browsers without one are redirected to `waiting_url`."""
        self._sale_id = sale_id
        self.keys = keys
        self._paths = tuple(paths)
        self._waiting_url = waiting_url
        self._buyer_of = buyer_of
        self._cookie = cookie
        self._known: dict[str, Pass] = {}

    def guards(self, path: str) -> bool:
        """Normalises the path, because a framework may route different spellings to the same view."""
        plain = normpath("/" + path.lstrip("/"))
        return any(plain == prefix or plain.startswith(prefix.rstrip("/") + "/") for prefix in self._paths)

    def needs_fetch(self, visit: Visit) -> bool:
        """Whether keys have to be fetched before this visit can be checked."""
        token = self._token(visit)
        key_id = None if token is None or token in self._known else key_id_of(token)
        return key_id is not None and self.keys.needs_fetch(key_id)

    def judge(self, visit: Visit) -> Pass | Refusal:
        token = self._token(visit)
        if token is None:
            return self._refuse(visit)
        try:
            known = self._read(token)
        except KeysUnknown:
            return _problem(
                503, "not_ready", "Not ready", "Passes cannot be verified at the moment. Try again shortly."
            )
        if known is None or known.sale_id != self._sale_id or not self._is_theirs(known, visit):
            return self._refuse(visit)
        return known

    def _read(self, token: str) -> Pass | None:
        known = self._known.get(token)
        if known is None:
            known = read_pass(token, self.keys.all(), time()) if key_id_of(token) is not None else None
            if known is not None:
                self._remember(token, known)
        return known if known is not None and is_in_time(known.expires_at, time()) else None

    def _remember(self, token: str, known: Pass) -> None:
        """Verifying a signature takes a good part of a millisecond, and buyers send many requests."""
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[token] = known

    def _is_theirs(self, known: Pass, visit: Visit) -> bool:
        return self._buyer_of is None or self._buyer_of(visit) == known.buyer_id

    def _token(self, visit: Visit) -> str | None:
        given = visit.headers.get(HEADER)
        if given:
            return given
        # Not with http.cookies: it stops at the first invalid cookie, which may belong to any other application.
        cookies = (part.strip().partition("=") for part in visit.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie and value), None)

    def _refuse(self, visit: Visit) -> Refusal:
        wants_page = visit.method in ("GET", "HEAD") and "text/html" in visit.headers.get("accept", "")
        if self._waiting_url is None or not wants_page:
            detail = f"This has a waiting room: sale {self._sale_id}. Send a valid `Holdfast-Pass`."
            return _problem(429, "admission_required", "Wait for your turn", detail)
        # Always a path of this site, so that it cannot be used as an open redirect.
        back = quote("/" + visit.path.lstrip("/") + (f"?{visit.query}" if visit.query else ""), safe="")
        joint = "&" if "?" in self._waiting_url else "?"
        location = f"{self._waiting_url}{joint}return_to={back}"
        return Refusal(303, [("location", location), ("cache-control", "no-store"), ("content-length", "0")], b"")


def _problem(status: int, reason: str, title: str, detail: str) -> Refusal:
    problem = {"type": f"urn:holdfast:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}
    body = json.dumps(problem).encode()
    headers = [
        ("content-type", "application/problem+json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("retry-after", str(random.randint(1, 3))),
    ]
    return Refusal(status, headers, body)
