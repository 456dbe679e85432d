"""A cache in front of the server, as a CDN would be: one look at `now` a second, however many want to know."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rush.wire import Reply
from holdfast.rush.wishes import Answer, Ask

# As `Cache-Control: max-age=1` allows.
FRESH_S = 1.0


class _Kept(Struct):
    answer: Answer | None = None
    until: float = float("-inf")
    waiting: list[tuple[float, Reply]] = []
    is_asked: bool = False


class Edge:
    def __init__(self, send: Callable[[Ask, float, Reply], None], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def look(self, ask: Ask, due_at: float, reply: Reply) -> bool:
        """Whether the answer was at hand, and is given now; else it follows."""
        kept = self._kept.setdefault(ask.path, _Kept())
        now = self._clock()
        if kept.answer is not None and now < kept.until:
            reply(replace(kept.answer, due_at=due_at, at=now))
            return True
        kept.waiting.append((due_at, reply))
        if not kept.is_asked:
            kept.is_asked = True
            self._send(ask, due_at, lambda answer: self._heard(kept, answer))
        return False

    def _heard(self, kept: _Kept, answer: Answer) -> None:
        kept.is_asked = False
        if answer.status == 200:
            kept.answer, kept.until = answer, answer.at + FRESH_S
        waiting, kept.waiting = kept.waiting, []
        for due_at, reply in waiting:
            reply(replace(answer, due_at=due_at))
