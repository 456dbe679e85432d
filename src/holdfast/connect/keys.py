"""A cache of the public keys that Holdfast publishes.

Keys are fetched when first needed, and again when they are old or a pass names an unknown key. An unknown key means
that keys were rotated or that the pass is forged; the pause between two fetches limits the load from forged ones. If
keys cannot be fetched again, the cached ones stay valid. If there never were any, nobody is admitted.
"""

import json
import logging
import threading
import urllib.request
from collections.abc import Callable
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

log = logging.getLogger("holdfast.connect")

FRESH_S = 300.0
PAUSE_S = 10.0
FETCH_TIMEOUT_S = 3.0
MAX_BYTES = 100_000

Fetch = Callable[[str], Any]


class KeysUnknown(Exception):
    """No keys could be fetched yet, so passes cannot be verified."""


class PublishedKeys:
    def __init__(self, url: str, fetch: Fetch | None = None) -> None:
        """`url` is the JWKS URL. `fetch` gets and parses it; the default uses urllib."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url} must be an http or https URL, such as https://room.example.com/…/jwks.json")
        self._url = url
        self._fetch = fetch or fetch_json
        self._keys = KeySet([])
        self._fetched = self._tried = float("-inf")
        self._fetching = threading.Lock()

    def needs_fetch(self, key_id: str) -> bool:
        """Whether to call `refresh`, which may take seconds."""
        now = monotonic()
        if now - self._tried < PAUSE_S:
            return False
        return now - self._fetched > FRESH_S or not self._has(key_id)

    def refresh(self) -> None:
        """Blocks. Concurrent callers wait for the running fetch and share its result."""
        asked = monotonic()
        with self._fetching:
            if self._tried < asked:
                self._try()

    def all(self) -> KeySet:
        if self._fetched == float("-inf"):
            raise KeysUnknown(f"the keys at {self._url} could not be fetched yet")
        return self._keys

    def _has(self, key_id: str) -> bool:
        return any(key.kid == key_id for key in self._keys.keys)

    def _try(self) -> None:
        try:
            self._keys = KeySet.import_key_set(self._fetch(self._url))
            self._fetched = monotonic()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, JoseError) as exc:
            log.warning("the keys at %s could not be fetched: %r", self._url, exc)
        finally:
            self._tried = monotonic()


def fetch_json(url: str) -> Any:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - see __init__
    with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310
        return json.loads(answer.read(MAX_BYTES))
