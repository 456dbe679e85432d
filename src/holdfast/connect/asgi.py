"""The waiting room in front of an ASGI application: FastAPI, Starlette, Django, Quart, Litestar."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .gatekeeper import Gatekeeper
from .visit import MAX_FORM, Reply, Visit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# The close code of a WebSocket that was refused by policy.
_POLICY_VIOLATION = 1008


class RoomMiddleware:
    """Admitted requests have the pass in `scope["holdfast.pass"]`."""

    def __init__(self, app: AsgiApp, gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not self._gatekeeper.guards(scope["path"]):
            await self._app(scope, receive, send)
            return
        gatekeeper, visit = self._gatekeeper, _visit(scope)
        token = gatekeeper.returned(await _read(receive)) if visit.is_return else gatekeeper.shown(visit)
        if gatekeeper.needs_fetch(token):
            await asyncio.to_thread(gatekeeper.keys.refresh)
        judged = gatekeeper.judge(visit, token)
        if isinstance(judged, Reply):
            await _reply(judged, scope, send)
        else:
            await self._app({**scope, "holdfast.pass": judged}, receive, send)


def _visit(scope: Scope) -> Visit:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    return Visit(scope.get("method", "GET"), scope["path"], query, headers, scope.get("scheme", "http"))


async def _read(receive: Receive) -> bytes:
    """The body, or more of it than a form with a pass can have."""
    body = b""
    while len(body) <= MAX_FORM:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


async def _reply(reply: Reply, scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = b"" if scope.get("method") == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body})
