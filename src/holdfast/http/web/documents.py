"""Documents that are the same for everyone: encoded once, and compressed once."""

import gzip
from functools import lru_cache, partial

import brotli

from holdfast.http.contract.message import Answer, Headers, Request
from holdfast.http.protection.large_answers import LARGE_BYTES, large_answers

# Smaller ones fit into a packet or two as they are.
MIN_BYTES = 1_000

# More than there are files and sales that people look at; the least recently asked for is compressed anew.
_KEPT = lru_cache(maxsize=1_000)
_brotli = _KEPT(partial(brotli.compress, mode=brotli.MODE_TEXT))
_gzip = _KEPT(partial(gzip.compress, mtime=0))


def send_document(request: Request, headers: Headers, body: bytes) -> Answer:
    if len(body) < MIN_BYTES:
        return Answer(200, headers, body)
    headers = [*headers, ("vary", "accept-encoding")]
    accepted = request.header("accept-encoding") or ""
    if _accepts(accepted, "br"):
        return Answer(200, [*headers, ("content-encoding", "br")], _brotli(body))
    if _accepts(accepted, "gzip"):
        return Answer(200, [*headers, ("content-encoding", "gzip")], _gzip(body))
    if request.method != "HEAD" and len(body) > LARGE_BYTES:
        large_answers.spend(len(body))
    return Answer(200, headers, body)


def _accepts(accepted: str, encoding: str) -> bool:
    names = (part.strip().partition(";") for part in accepted.lower().split(","))
    return any(name.strip() == encoding and weight.replace(" ", "") != "q=0" for name, _, weight in names)
