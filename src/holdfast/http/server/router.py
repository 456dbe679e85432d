"""Finding the endpoint for a path: a trie of segments, built once from the endpoint table."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.http.contract.decoding import BodyDecoder, QueryDecoder
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.headers import IDEMPOTENCY_KEY_HEADER
from holdfast.http.contract.message import Answer
from holdfast.http.contract.path_parameters import PATH_PARAMETERS, text_check
from holdfast.http.contract.problem import ProblemKind
from holdfast.http.contract.schemas.values import IdempotencyKey
from holdfast.runtime import metrics

# Called with the request, then its path parameters, then its body or its query if the endpoint declares one.
Handler = Callable[..., Awaitable[Answer]]
Handlers = Mapping[Endpoint, Handler]

is_key = text_check(IdempotencyKey)

# A crowd asks for the same few paths.
PATHS_KEPT = 1_024


class TableMismatch(HoldfastError):
    """The endpoint table and the handlers do not match; a server must not start like this."""


class Route(Struct, frozen=True, eq=False):
    """An endpoint with its handler, and what is derived from its declaration once."""

    endpoint: Endpoint
    handler: Handler
    body: BodyDecoder | None
    query: QueryDecoder | None
    # Of the path parameters, in order; none if the handler checks them.
    checks: tuple[Callable[[str], bool], ...]
    takes_key: bool
    key_missing: ProblemKind | None
    # A header accepted instead of the key.
    key_instead: str | None
    # How long its answers took, until they are flushed.
    timings: metrics.Timings


class Found(Struct, frozen=True, gc=False):
    """Shared by all requests for the same path."""

    route: Route
    values: tuple[str, ...]


class _Node(Struct, eq=False):
    segments: "dict[str, _Node]" = {}
    parameter: "_Node | None" = None
    # By method.
    routes: dict[str, Route] = {}
    # `{name:rest}`: the segments that must follow it, longest first, and the routes by method.
    rest: list[tuple[tuple[str, ...], dict[str, Route]]] = []


class Router:
    def __init__(self, endpoints: Iterable[Endpoint], handlers: Handlers) -> None:
        """Raises `TableMismatch` unless each endpoint has one handler, and each handler an endpoint."""
        self._root = _Node()
        table = list(endpoints)
        _check_total(table, handlers)
        for endpoint in table:
            if endpoint.body is not None and endpoint.query is not None:
                raise TableMismatch(f"{endpoint.operation_id} declares a body and a query")
            self._add(_route(endpoint, handlers[endpoint]))
        self.find: Callable[[str, str], Found | None] = lru_cache(PATHS_KEPT)(self._find)

    def _find(self, method: str, path: str) -> Found | None:
        """Straight down for nearly every path; where a literal leads nowhere, a parameter is tried in its place."""
        segments = path.split("/")
        node = self._root
        values: list[str] = []
        for segment in segments[1:]:
            following = node.segments.get(segment)
            if following is None:
                following = node.parameter if segment else None
                if following is None:
                    break
                values.append(segment)
            node = following
        else:
            route = node.routes.get(method)
            if route is not None:
                return Found(route, tuple(values))
        values = []
        found = self._route(self._root, segments, 1, method, values)
        return None if found is None else Found(found, tuple(values))

    def allowed(self, path: str) -> list[str]:
        """The methods that a path knows, sorted; empty if there is nothing at it."""
        found: set[str] = set()
        _collect(self._root, path.split("/"), 1, found)
        return sorted(found)

    def _add(self, route: Route) -> None:
        node, segments = self._root, route.endpoint.path.split("/")[1:]
        for index, segment in enumerate(segments):
            if segment.endswith(":rest}"):
                tail = tuple(segments[index + 1 :])
                routes = next((routes for known, routes in node.rest if known == tail), None)
                if routes is None:
                    node.rest.append((tail, routes := {}))
                    node.rest.sort(key=lambda entry: -len(entry[0]))
                break
            if segment.startswith("{"):
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.segments.setdefault(segment, _Node())
        else:
            routes = node.routes
        for method in route.endpoint.methods:
            if method in routes:
                raise TableMismatch(f"{method} {route.endpoint.path} is declared twice")
            routes[method] = route

    def _route(self, node: _Node, segments: list[str], at: int, method: str, values: list[str]) -> Route | None:
        """Literal segments first; a parameter is never empty."""
        if at == len(segments):
            return node.routes.get(method)
        segment = segments[at]
        literal = node.segments.get(segment)
        if literal is not None:
            route = self._route(literal, segments, at + 1, method, values)
            if route is not None:
                return route
        if node.parameter is not None and segment:
            values.append(segment)
            route = self._route(node.parameter, segments, at + 1, method, values)
            if route is not None:
                return route
            values.pop()
        for tail, routes in node.rest:
            last = len(segments) - len(tail)
            if (
                last > at
                and method in routes
                and tuple(segments[last:]) == tail
                and (rest := "/".join(segments[at:last]))
            ):
                values.append(rest)
                return routes[method]
        return None


def _collect(node: _Node, segments: list[str], at: int, found: set[str]) -> None:
    if at == len(segments):
        found.update(node.routes)
        return
    if segments[at] in node.segments:
        _collect(node.segments[segments[at]], segments, at + 1, found)
    if node.parameter is not None and segments[at]:
        _collect(node.parameter, segments, at + 1, found)
    for tail, routes in node.rest:
        last = len(segments) - len(tail)
        if last > at and tuple(segments[last:]) == tail and any(segments[at:last]):
            found.update(routes)


def _check_total(endpoints: list[Endpoint], handlers: Handlers) -> None:
    missing = [endpoint.operation_id for endpoint in endpoints if endpoint not in handlers]
    unknown = [endpoint.operation_id for endpoint in handlers if endpoint not in endpoints]
    if missing or unknown:
        raise TableMismatch(f"endpoints without a handler: {missing}; handlers without an endpoint: {unknown}")


def _route(endpoint: Endpoint, handler: Handler) -> Route:
    body = None
    if endpoint.body is not None:
        body = BodyDecoder(endpoint.body, is_required=endpoint.is_body_required)
    checked = endpoint.path_parameters if endpoint.checks_path else ()
    key = next((header for header in endpoint.headers if header.name == IDEMPOTENCY_KEY_HEADER), None)
    return Route(
        endpoint,
        handler,
        body,
        None if endpoint.query is None else QueryDecoder(endpoint.query),
        tuple(text_check(PATH_PARAMETERS[name]) for name in checked),
        key is not None,
        None if key is None else key.missing,
        None if key is None else key.instead,
        metrics.timings_of(endpoint.operation_id),
    )
