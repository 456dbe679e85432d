"""`/docs`, the API reference, and `/openapi.json`: both derived from the endpoint table, once."""

from functools import cache

from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.message import JSON, Answer, Request, encode
from holdfast.http.contract.openapi import openapi_document
from holdfast.http.contract.problem import NOSNIFF
from holdfast.http.contract.problems import CATALOGUE
from holdfast.http.web.documents import send_document
from holdfast.http.web.example import with_examples
from holdfast.http.web.pages import transport_security
from holdfast.http.web.reference import render

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Short enough that an upgraded server is not described by its old page for long.
CACHE = ("cache-control", "public, max-age=60")
_SAFE = [
    (
        "content-security-policy",
        _POLICY,
    ),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    NOSNIFF,
    CACHE,
    ("content-type", "text/html; charset=utf-8"),
]


async def docs(request: Request) -> Answer:
    return send_document(request, [*_SAFE, *transport_security(request)], _page())


async def openapi(request: Request) -> Answer:
    return send_document(request, [JSON, CACHE, NOSNIFF], _document())


@cache
def _page() -> bytes:
    return render(openapi_document(ENDPOINTS), CATALOGUE.values()).encode()


@cache
def _document() -> bytes:
    return encode(with_examples(openapi_document(ENDPOINTS)))
