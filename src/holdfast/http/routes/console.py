"""The console's page, and who is signed in there."""

import msgspec
from fastapi import APIRouter, Request, Response

from holdfast.http.console.cookie import SCHEME, set_cookie
from holdfast.http.console.sessions import LASTS_S
from holdfast.http.console_schemas import SessionOut, session_body
from holdfast.http.pages import page
from holdfast.http.problems import forbidden, unauthorized
from holdfast.http.routes.callers import AnyCaller, IdentifiedRoute, TheHouse, json_response

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/console", tags=["operate"])
pages = APIRouter(include_in_schema=False)


@pages.api_route("/console", methods=["GET", "HEAD"])
async def show_console(request: Request) -> Response:
    return page(request, "console/index.html")


@router.post("/session", response_model=SessionOut, summary="Sign in to the console with a service key")
async def sign_in(request: Request, caller: AnyCaller, house: TheHouse) -> Response:
    """Sets a cookie that lasts for half a day, and stands for the key where `Holdfast-Console: 1` is sent."""
    scheme, _, key = request.headers["authorization"].partition(" ")
    if caller.buyer_id is not None or scheme == SCHEME:
        raise forbidden("Sign in with a service key.")
    begun = await house.doorkeeper.sessions.begin(key)
    if begun is None:
        raise unauthorized("This service key is not known, or was revoked.")
    token, session = begun
    response = json_response(session_body(session))
    response.headers["set-cookie"] = set_cookie(token, LASTS_S, request.headers.get("origin"))
    response.headers["cache-control"] = "no-store"
    return response


@router.get("/session", response_model=SessionOut, summary="Who is signed in")
async def show_session(request: Request, caller: AnyCaller, house: TheHouse) -> Response:
    scheme, _, token = request.headers["authorization"].partition(" ")
    session = await house.doorkeeper.sessions.find(token) if scheme == SCHEME else None
    if session is not None:
        body = session_body(session)
    else:
        body = {"key_id": None, "name": None, "scopes": sorted(caller.scopes), "expires_at": None}
    return Response(msgspec.json.encode(body), headers={"cache-control": "no-store"}, media_type="application/json")


@router.delete("/session", status_code=204, summary="Sign out")
async def sign_out(request: Request, house: TheHouse) -> Response:
    """Here at once, and at other server processes within five seconds."""
    authorization = request.headers["authorization"]
    scheme, _, token = authorization.partition(" ")
    if scheme == SCHEME:
        await house.doorkeeper.sessions.end(token)
        house.doorkeeper.forget(authorization)
    return Response(status_code=204, headers={"set-cookie": set_cookie("", 0, request.headers.get("origin"))})
