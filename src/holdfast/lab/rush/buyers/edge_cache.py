"""A cache in front of the server, like a CDN: one request for `now` per second, however many buyers poll it."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.lab.load.client import Reply
from holdfast.lab.load.http import Request, Response

# The maximum age that `Cache-Control: max-age=1` allows.
FRESH_S = 1.0
_HIT = "HIT"


class _Entry(Struct):
    response: Response | None = None
    fresh_until: float = float("-inf")
    waiting: list[tuple[float, Reply]] = []
    is_requested: bool = False


class EdgeCache:
    def __init__(self, send: Callable[[Request, float, Reply], None], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def get(self, request: Request, due_at: float, reply: Reply) -> None:
        entry = self._entries.setdefault(request.path, _Entry())
        now = self._clock()
        if entry.response is not None and now < entry.fresh_until:
            reply(replace(entry.response, due_at=due_at, at=now, cache=_HIT))
            return
        entry.waiting.append((due_at, reply))
        if not entry.is_requested:
            entry.is_requested = True
            self._send(request, due_at, lambda response: self._store(entry, response))

    def _store(self, entry: _Entry, response: Response) -> None:
        entry.is_requested = False
        if response.status == 200:
            entry.response, entry.fresh_until = response, response.at + FRESH_S
        waiting, entry.waiting = entry.waiting, []
        for due_at, reply in waiting:
            reply(replace(response, due_at=due_at))
            response = replace(response, cache=_HIT if response.status else "")
