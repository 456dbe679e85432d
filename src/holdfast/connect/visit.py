"""A request as the middleware sees it, and the response it sends instead of the shop's."""

import json
import random
from dataclasses import dataclass
from urllib.parse import quote

Headers = list[tuple[str, str]]

# The waiting page returns a visitor with a form that is posted to the URL with this in its query.
RETURN_MARK = "holdfast_return=1"
FORM = "application/x-www-form-urlencoded"
# A pass has at most 2,000 characters; the rest is for the form itself.
MAX_FORM = 4_000


@dataclass(frozen=True)
class Visit:
    """The relevant parts of a request, with header names in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    scheme: str = "http"

    @property
    def cookies(self) -> dict[str, str]:
        # Not with http.cookies: it stops at the first invalid cookie, which may belong to any other application.
        parts = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in parts if value}

    @property
    def is_return(self) -> bool:
        is_form = self.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
        return self.method == "POST" and is_form and RETURN_MARK in self.query.split("&")

    @property
    def local_url(self) -> str:
        """The URL without the mark. Always a path on this site: `//host` and `/\\host` would lead to another."""
        query = "&".join(part for part in self.query.split("&") if part and part != RETURN_MARK)
        return quote("/" + self.path.lstrip("/\\"), safe="/:@!$&'()*+,;=~") + (f"?{query}" if query else "")

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https" or self.headers.get("x-forwarded-proto") == "https"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Headers
    body: bytes


def redirect(location: str, *headers: tuple[str, str]) -> Reply:
    return Reply(303, [("location", location), ("cache-control", "no-store"), ("content-length", "0"), *headers], b"")


def problem(status: int, reason: str, title: str, detail: str) -> Reply:
    content = {"type": f"urn:holdfast:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}
    body = json.dumps(content).encode()
    headers = [
        ("content-type", "application/problem+json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("retry-after", str(random.randint(1, 3))),
    ]
    return Reply(status, headers, body)
