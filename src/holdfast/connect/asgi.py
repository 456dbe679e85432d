"""The waiting room in front of an ASGI application: FastAPI, Starlette, Django, Quart, Litestar."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from holdfast.connect.gatekeeper import Gatekeeper, Refusal, Visit

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
        visit = _visit(scope)
        if self._gatekeeper.needs_fetch(visit):
            await asyncio.to_thread(self._gatekeeper.keys.refresh)
        judged = self._gatekeeper.judge(visit)
        if isinstance(judged, Refusal):
            await _refuse(judged, scope, send)
        else:
            await self._app({**scope, "holdfast.pass": judged}, receive, send)


def _visit(scope: Scope) -> Visit:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Visit(scope.get("method", "GET"), scope["path"], scope["query_string"].decode("latin-1"), headers)


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    body = b"" if scope.get("method") == "HEAD" else refusal.body
    await send({"type": "http.response.body", "body": body})
