"""The waiting room in front of a WSGI application: Django, Flask, Pyramid."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from .gatekeeper import Gatekeeper
from .visit import MAX_FORM, Reply, Visit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class WsgiRoomMiddleware:
    """Admitted requests have the pass in `environ["holdfast.pass"]`."""

    def __init__(self, app: "WSGIApplication", gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        gatekeeper, visit = self._gatekeeper, _visit(environ)
        if not gatekeeper.guards(visit.path):
            return self._app(environ, start_response)
        token = gatekeeper.returned(_read(environ)) if visit.is_return else gatekeeper.shown(visit)
        if gatekeeper.needs_fetch(token):
            gatekeeper.keys.refresh()
        judged = gatekeeper.judge(visit, token)
        if isinstance(judged, Reply):
            start_response(f"{judged.status} {HTTPStatus(judged.status).phrase}", judged.headers)
            return [b"" if visit.method == "HEAD" else judged.body]
        environ["holdfast.pass"] = judged
        return self._app(environ, start_response)


def _visit(environ: "WSGIEnvironment") -> Visit:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    headers["content-type"] = environ.get("CONTENT_TYPE", "")
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")) or "/"
    return Visit(
        environ["REQUEST_METHOD"],
        # WSGI has bytes as latin-1 (PEP 3333); browsers send UTF-8.
        path.encode("latin-1").decode("utf-8", "replace"),
        environ.get("QUERY_STRING", ""),
        headers,
        environ.get("wsgi.url_scheme", "http"),
    )


def _read(environ: "WSGIEnvironment") -> bytes:
    """The body, or more of it than a form with a pass can have."""
    length = environ.get("CONTENT_LENGTH") or "0"
    body: bytes = environ["wsgi.input"].read(min(int(length), MAX_FORM + 1)) if length.isdecimal() else b""
    return body
