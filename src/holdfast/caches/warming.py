"""Fills the caches of one sale, so that the first requests of a crowd do not all reach the server.

The page names its files, and scripts name the scripts they import. Those on the same host are fetched, too.
"""

import gzip
import re
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

import httpcore
import msgspec
from msgspec import Struct

from holdfast.caches.purging import TIMEOUTS

# More files than the page has.
FILES_MAX = 200
_NAMED = re.compile(r'(?:src|href)="(/assets/[^"]+)"')
_IMPORTED = re.compile(r'(?:from|import)\s*\(?"(\.{1,2}/[^"]+)"')
# In order of preference: ours, Cloudflare's, and the most common one elsewhere.
_VERDICTS = ("holdfast-cache", "cf-cache-status", "x-cache")


class Warmed(Struct, frozen=True):
    path: str
    status: int
    # The cache status before and after: HIT, MISS, …; empty if the cache does not report it.
    first: str
    then: str

    @property
    def is_warm(self) -> bool:
        return self.status == 200 and "HIT" in self.then.upper()


class _Facts(Struct, frozen=True):
    image_url: str | None = None


class _Fetched(Struct, frozen=True):
    status: int
    cache: str
    body: str


async def warm(url: str, sale_id: str) -> list[Warmed]:
    """Fetches page, files, pictures, facts and `now` twice through the cache at `url`."""
    url = url.rstrip("/")
    waiting = [f"/s/{sale_id}", f"/v1/sales/{sale_id}", f"/v1/sales/{sale_id}/now", "/store/config.json"]
    done: dict[str, Warmed] = {}
    async with httpcore.AsyncConnectionPool() as pool:
        while waiting and len(done) < FILES_MAX:
            path = waiting.pop(0)
            if path in done:
                continue
            first = await _fetch(pool, url + path)
            then = await _fetch(pool, url + path) if first.status == 200 else first
            done[path] = Warmed(path, first.status, first.cache, then.cache)
            waiting += _named_by(path, first.body, url)
    return list(done.values())


async def _fetch(pool: httpcore.AsyncConnectionPool, url: str) -> _Fetched:
    # The same as browsers send: caches store compressed copies separately.
    headers: dict[bytes | str, bytes | str] = {"Accept-Encoding": "gzip", "Host": urlsplit(url).netloc}
    try:
        answer = await pool.request("GET", url, headers=headers, extensions={"timeout": TIMEOUTS})
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError):
        return _Fetched(0, "", "")
    names = {name.decode().lower(): value.decode() for name, value in answer.headers}
    verdict = next((names[name] for name in _VERDICTS if name in names), "")
    content = gzip.decompress(answer.content) if names.get("content-encoding") == "gzip" else answer.content
    return _Fetched(answer.status, verdict, content.decode(errors="replace"))


def _named_by(path: str, body: str, url: str) -> Iterator[str]:
    if path.startswith("/s/"):
        yield from _NAMED.findall(body)
    elif path.endswith((".js", ".mjs")):
        for relative in _IMPORTED.findall(body):
            yield normpath(join(dirname(path), relative))
    elif re.fullmatch(r"/v1/sales/[^/]+", path):
        yield from _picture_in(body, url)


def _picture_in(facts: str, url: str) -> Iterator[str]:
    """Only a picture on the same host goes through this cache."""
    try:
        picture = msgspec.json.decode(facts, type=_Facts).image_url
    except msgspec.MsgspecError:
        return
    parts = urlsplit(picture or "")
    if parts.path and parts.netloc in ("", urlsplit(url).netloc):
        yield parts.path
