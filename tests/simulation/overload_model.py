"""A server under overload, in steps of a millisecond.

It does CAPACITY units of work per millisecond, first come, first served; each request is one, plus a little for every
other request in memory (caches, collections, context switches). A refusal is a little work, too. Clients give up after
PATIENCE_MS without the server noticing, so its work for them is wasted.
"""

from collections import Counter, deque
from collections.abc import Iterator
from random import Random

from holdfast.runtime.concurrency_limit import Limiter, Priority

CAPACITY = 2.0
AT_EASE_MS = 5.0
PATIENCE_MS = 500
REFUSAL = 0.01
CROWDING = 1 / 5_000
MIX = {
    Priority.FINISH: 5,
    Priority.PURCHASE: 25,
    Priority.JOIN: 20,
    Priority.READ: 45,
    Priority.CONSOLE: 5,
}


class Server:
    def __init__(self, load: float, seed: int, *, is_limited: bool = True) -> None:
        self.load, self.random = load, Random(seed)
        self.limiter = Limiter() if is_limited else None
        self.line: deque[tuple[int, Priority]] = deque()
        self.served: Counter[Priority] = Counter()
        self.asked: Counter[Priority] = Counter()
        self.took_ms: list[float] = []
        self.work = 0.0

    def run(self, seconds: int, warm_up: int = 3) -> "Server":
        """The warm-up is not counted."""
        for now in range((seconds + warm_up) * 1_000):
            if now == warm_up * 1_000:
                self.served, self.asked, self.took_ms = Counter(), Counter(), []
            self._step(now)
        return self

    def per_second(self, seconds: int) -> float:
        return sum(self.served.values()) / seconds

    def _step(self, now: int) -> None:
        self.work = min(self.work, 1.0) + CAPACITY
        for priority in self._arriving():
            self.asked[priority] += 1
            if self.limiter is None or self.limiter.enter(priority):
                self.line.append((now, priority))
            else:
                self.work -= REFUSAL
        cost = 1 + len(self.line) * CROWDING
        while self.line and self.work >= cost:
            self.work -= cost
            self._answer(now, *self.line.popleft())

    def _arriving(self) -> Iterator[Priority]:
        expected = self.load * CAPACITY
        # A fast approximation of a Poisson draw.
        tries = max(8, int(expected * 4))
        count = sum(self.random.random() < expected / tries for _ in range(tries))
        yield from self.random.choices(list(MIX), list(MIX.values()), k=count)

    def _answer(self, now: int, asked_at: int, priority: Priority) -> None:
        took = now - asked_at + AT_EASE_MS
        if self.limiter is not None:
            self.limiter.leave(took, now)
        if took <= PATIENCE_MS:
            self.served[priority] += 1
            self.took_ms.append(took)
