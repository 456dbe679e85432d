"""Everything that is not hot: a FastAPI application."""

import re
from collections.abc import MutableMapping
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi import Request as FastApiRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from holdfast import __version__
from holdfast.bootstrap import House
from holdfast.errors import EngineError
from holdfast.http import docs_page, pages
from holdfast.http.invalid import from_validation
from holdfast.http.openapi import describe
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, from_engine
from holdfast.http.requests import Answer, Request
from holdfast.http.routes import (
    audit,
    console,
    demo,
    inventory,
    keys,
    live,
    lottery,
    money,
    operate,
    orders,
    parked,
    reservations,
    rooms,
    sales,
    storefront,
    webhooks,
)

Message = MutableMapping[str, Any]

_API = (inventory, sales, rooms, lottery, reservations, orders, money, operate, parked, audit, webhooks, live, keys)
_ROUTERS = [routes.router for routes in (*_API, console, docs_page, storefront, pages)]
_ROUTERS += [sales.public_router, rooms.public_router, money.webhooks, console.pages]
# Passed on as we have understood them.
_OURS = frozenset({"content-type", "authorization"})


class SlowLane:
    """Calls the FastAPI application in its own protocol, ASGI, with a body that is already read."""

    def __init__(self, house: House, patrol: Patrol) -> None:
        self._app = build(house, patrol)

    async def answer(self, request: Request) -> Answer:
        answer = Answer(500, [], b"")
        body: Message | None = {"type": "http.request", "body": request.body, "more_body": False}

        async def receive() -> Message:
            nonlocal body
            message, body = body, None
            if message is None:
                await request.wire.gone()
                message = {"type": "http.disconnect"}
            return message

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]
                ]
            else:
                answer.body += message.get("body", b"")

        await self._app(_scope(request), receive, send)
        return answer


def _scope(request: Request) -> dict[str, Any]:
    # We speak JSON only, whatever the client calls it: `curl -d` calls everything a form.
    headers = [(name, value) for name, value in request.wire.headers() if name not in _OURS]
    if request.authorization is not None:
        headers.append(("authorization", request.authorization))
    return {
        "type": "http",
        "holdfast.wire": request.wire,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": request.path,
        "raw_path": quote(request.path).encode(),
        "query_string": request.query.encode("latin-1", "replace"),
        "headers": [
            *((name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers),
            (b"content-type", b"application/json"),
        ],
    }


def build(house: House, patrol: Patrol) -> FastAPI:
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        # A redirect would be built from the Host header, which anyone may set.
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.house = house
    app.state.patrol = patrol
    for router in _ROUTERS:
        app.include_router(router)
    if house.settings.demo:
        app.include_router(demo.router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(EngineError, _engine_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_api_route("/", _front_page, methods=["GET", "HEAD"], include_in_schema=False)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


async def _front_page() -> Response:
    return RedirectResponse("/docs")


def respond(problem: Problem) -> Response:
    response = Response(problem.body(), problem.status)
    response.headers.update(dict(problem.headers()))
    return response


async def _problem(_request: FastApiRequest, exc: Exception) -> Response:
    assert isinstance(exc, Problem)
    return respond(exc)


async def _engine_error(request: FastApiRequest, exc: Exception) -> Response:
    assert isinstance(exc, EngineError)
    return respond(from_engine(exc, f"{request.method} {request.url.path}"))


async def _invalid(_request: FastApiRequest, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    return respond(from_validation(exc.errors()))


def _allowed(request: FastApiRequest) -> set[str]:
    """The methods this address knows, in either lane. Starlette names those of the first route that matches only."""
    described: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    known = [(path, {method.upper() for method in operations}) for path, operations in described.items()]
    routes = [*request.app.routes, *(route for router in _ROUTERS for route in router.routes)]
    known += [(route.path, route.methods or set()) for route in routes if isinstance(route, Route)]
    return {method for path, methods in known if _fits(path, request.url.path) for method in methods}


@cache
def _pattern(template: str) -> re.Pattern[str]:
    whole_rest = re.sub(r"\\{\w+:path\\}", ".+", re.escape(template))
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", whole_rest))


def _fits(template: str, path: str) -> bool:
    return _pattern(template).fullmatch(path) is not None


async def _http_error(request: FastApiRequest, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    allowed = _allowed(request)
    if allowed and exc.status_code in (404, 405):
        problem = Problem(405, "method_not_allowed", "Method not allowed", "This address knows other methods.")
        response = respond(problem)
        response.headers["allow"] = ", ".join(sorted(allowed))
        return response
    if exc.status_code in (404, 405):
        return respond(Problem(404, "not_found", "Not found", "There is nothing at this address. See /docs."))
    return respond(Problem(exc.status_code, "invalid_request", "The request is not valid", str(exc.detail)))
