"""CORS: pages of the allowed origins may call the API and load its scripts. Other origins get no headers at all.

Callers are known by the bearer token that their page sends, never by a cookie, so credentials are not allowed: a page
of another origin cannot use the console's session, even of an origin that is allowed. The console's header is not
among those that a preflight permits either. Which methods and headers a path takes comes from the endpoint table.
"""

from contextlib import suppress

from holdfast.http.contract.exposed import EXPOSED_HEADERS
from holdfast.http.contract.headers import RETRY
from holdfast.http.contract.message import SEEN, Answer, Headers, Request
from holdfast.http.contract.problem import Problem
from holdfast.http.server.router import Route, Router

_PATHS = ("/v1/", "/assets/")
# Browsers keep a preflight for two hours at most.
_MAX_AGE = ("access-control-max-age", "7200")
# Clients may send these with every call.
_ALWAYS_ACCEPTED = {RETRY.name.lower(), SEEN, "x-request-id"}
_EXPOSED = ("access-control-expose-headers", EXPOSED_HEADERS)
_VARY_PREFLIGHT = ("vary", "origin, access-control-request-method, access-control-request-headers")


class CrossOrigin:
    def __init__(self, origins: frozenset[str], router: Router) -> None:
        self._origins, self._router = origins, router

    def preflight(self, request: Request) -> Answer | None:
        """Answered immediately, outside the limits: it costs less than a refusal, and every request may need one."""
        if request.method != "OPTIONS" or not request.path.startswith(_PATHS):
            return None
        origin, wanted = self._origin(request), _header(request, "access-control-request-method")
        methods = self._router.allowed(request.path)
        if origin is None or wanted is None or not methods:
            return None
        found = self._router.find(wanted, request.path)
        headers: Headers = [
            ("access-control-allow-origin", origin),
            ("access-control-allow-methods", ", ".join(methods)),
            ("access-control-allow-headers", "" if found is None else ", ".join(_accepted(found.route))),
            _MAX_AGE,
            _VARY_PREFLIGHT,
        ]
        return Answer(204, headers, b"")

    def mark(self, request: Request, answer: Answer) -> None:
        """Lets a page of an allowed origin read the answer. Caches must not give it to a page of another one."""
        if not request.path.startswith(_PATHS):
            return
        _vary(answer.headers)
        origin = self._origin(request)
        if origin is not None:
            answer.headers += [("access-control-allow-origin", origin), _EXPOSED]

    def _origin(self, request: Request) -> str | None:
        origin = _header(request, "origin")
        return origin if origin in self._origins else None


def _header(request: Request, name: str) -> str | None:
    with suppress(Problem):
        return request.header(name)
    return None


def _accepted(route: Route) -> list[str]:
    """The request headers of an endpoint that browsers ask about."""
    endpoint = route.endpoint
    names = {header.name.lower() for header in endpoint.headers} | _ALWAYS_ACCEPTED
    if endpoint.access.is_required or endpoint.access.is_optional:
        names.add("authorization")
    if endpoint.body is not None:
        names.add("content-type")
    return sorted(names)


def _vary(headers: Headers) -> None:
    """Added to an existing `Vary` header, because not every cache reads a second one."""
    for index, (name, value) in enumerate(headers):
        if name == "vary":
            headers[index] = (name, f"{value}, origin")
            return
    headers.append(("vary", "origin"))
