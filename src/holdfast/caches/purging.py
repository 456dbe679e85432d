"""Empties the caches of one sale: nginx's files on this host, and a CDN by its HTTP interface."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import httpcore
from msgspec import Struct

from holdfast.caches.nginx_files import remove_cached

TIMEOUTS = {"connect": 3.0, "read": 10.0, "write": 10.0, "pool": 3.0}
TAG_PLACE = "{tag}"


class Purged(Struct, frozen=True):
    sale_id: str
    files: int
    # The status of the CDN's response; None without a CDN, 0 if it did not respond.
    cdn_status: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.cdn_status is None or 200 <= self.cdn_status < 300


class Purger:
    def __init__(self, directories: Sequence[Path] = (), url: str = "", token: str = "") -> None:
        """`url`: gets a POST with `{"tags": ["sale-ID"]}`, the format of Cloudflare. If it contains `{tag}`, the tag is
        inserted there, the format of Fastly. `token` is sent as a bearer token."""
        self._directories = directories
        self._url = url
        self._token = token

    @property
    def is_needed(self) -> bool:
        return bool(self._directories or self._url)

    async def purge(self, sale_id: str) -> Purged:
        counts = [await asyncio.to_thread(remove_cached, each, sale_id) for each in self._directories]
        status = await self._call(cache_tag(sale_id)) if self._url else None
        return Purged(sale_id, sum(counts), status)

    async def _call(self, tag: str) -> int:
        headers: dict[bytes | str, bytes | str] = {"Content-Type": "application/json"}
        if self._token:
            # Fastly reads the second header.
            headers |= {"Authorization": f"Bearer {self._token}", "Fastly-Key": self._token}
        body = json.dumps({"tags": [tag]}).encode()
        async with httpcore.AsyncConnectionPool() as pool:
            try:
                answer = await pool.request(
                    "POST",
                    self._url.replace(TAG_PLACE, tag),
                    headers=headers,
                    content=body,
                    extensions={"timeout": TIMEOUTS},
                )
            except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError):
                return 0
        return int(answer.status)


def cache_tag(sale_id: str) -> str:
    """The tag on all responses about a sale."""
    return f"sale-{sale_id}"


def directories_from(text: str) -> list[Path]:
    """Separated by commas."""
    return [Path(part.strip()) for part in text.split(",") if part.strip()]
