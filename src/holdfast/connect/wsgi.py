"""The waiting room in front of a WSGI application: Django, Flask, Pyramid."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from holdfast.connect.gatekeeper import Gatekeeper, Refusal, Visit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class WsgiRoomMiddleware:
    """Admitted requests have the pass in `environ["holdfast.pass"]`."""

    def __init__(self, app: "WSGIApplication", gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        visit = _visit(environ)
        if not self._gatekeeper.guards(visit.path):
            return self._app(environ, start_response)
        if self._gatekeeper.needs_fetch(visit):
            self._gatekeeper.keys.refresh()
        judged = self._gatekeeper.judge(visit)
        if isinstance(judged, Refusal):
            start_response(f"{judged.status} {HTTPStatus(judged.status).phrase}", judged.headers)
            return [b"" if visit.method == "HEAD" else judged.body]
        environ["holdfast.pass"] = judged
        return self._app(environ, start_response)


def _visit(environ: "WSGIEnvironment") -> Visit:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")) or "/"
    return Visit(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), headers)
