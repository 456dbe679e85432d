"""Documents that are the same for everyone: encoded once, and compressed once if they are large."""

import gzip
from functools import cache

from holdfast.http.contract.message import Answer, Headers, Request
from holdfast.http.protection.large_answers import LARGE_BYTES, large_answers

_compressed = cache(gzip.compress)


def send_document(request: Request, headers: Headers, body: bytes) -> Answer:
    """`body` must be one of a few that are kept for good."""
    if len(body) <= LARGE_BYTES:
        return Answer(200, headers, body)
    headers = [*headers, ("vary", "accept-encoding")]
    if "gzip" in (request.header("accept-encoding") or ""):
        return Answer(200, [*headers, ("content-encoding", "gzip")], _compressed(body))
    if request.method != "HEAD":
        large_answers.spend(len(body))
    return Answer(200, headers, body)
