"""The two ways to drive a server.

A closed loop sends the next request of a connection when the previous one was answered. An open loop sends each request
at its scheduled time and counts latency from then: when the server is slow, requests queue up and their wait counts. A
closed loop would slow down with the server and hide that.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, count
from time import monotonic

from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.http import Response
from holdfast.lab.load.spec import Load

_TICK_S = 0.001
# About 50 MB of requests with tokens. Creating one takes the driver about as long as sending it.
_PREPARED_MAX = 100_000
# More than any server here answers; a closed loop that needs more requests creates them on the fly.
_CLOSED_RATE = 40_000


class _Loop:
    def __init__(self, load: Load, client: LoadClient) -> None:
        self.load, self.client = load, client
        self.statuses: Counter[int] = Counter()
        self.waits: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started = self.ended = monotonic()
        self.given_up = 0
        self._requests = _requests(load)

    def send(self, due_at: float) -> None:
        self.client.send_encoded(next(self._requests), due_at, self.answered)

    def answered(self, response: Response) -> None:
        raise NotImplementedError

    def count(self, response: Response) -> bool:
        """Returns whether there was a response; without one the measurement has failed."""
        if response.status == 0:
            if not self.done.done():
                self.done.set_exception(BenchFailed("the server closed a connection that was in use"))
            return False
        self.ended = response.at
        self.statuses[response.status] += 1
        self.waits.append(response.at - response.due_at)
        return True

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _requests(load: Load) -> Iterator[bytes]:
    """Prepares the requests of an open loop in advance, so that the driver itself is never late; and those with tokens,
    so that signing them does not hold up a fast server."""
    filling, pieces = load.filling(), [piece.encode() for piece in load.pieces()]
    rate = load.rate_per_second or (_CLOSED_RATE if load.buyer_secret and load.requests is None else 0)
    made = min(int(load.seconds * rate), _PREPARED_MAX)
    prepared = [filling(number).join(pieces) for number in range(1, made + 1)]
    return chain(prepared, (filling(number).join(pieces) for number in count(made + 1)))


class ClosedLoop(_Loop):
    def begin(self) -> None:
        self.started = monotonic()
        self._until = self.started + self.load.longest_s
        self._left = self.load.requests or sys.maxsize
        self._under_way = min(self.load.connections, self._left)
        self._left -= self._under_way
        for _ in range(self._under_way):
            self.send(self.started)

    def answered(self, response: Response) -> None:
        if not self.count(response):
            return
        if response.at < self._until and self._left:
            self._left -= 1
            self.send(response.at)
            return
        self._under_way -= 1
        if not self._under_way:
            self.finish()

    @property
    def last_due(self) -> float:
        return self._until


class OpenLoop(_Loop):
    def begin(self) -> None:
        assert self.load.rate_per_second is not None
        self._rate = self.load.rate_per_second
        self._total = max(1, int(self.load.seconds * self._rate))
        self._patience_s = self.load.patience_s or float("inf")
        self._planned = 0
        self.started = monotonic()
        self._tick()

    def _tick(self) -> None:
        due_by_now = min(self._total, int((monotonic() - self.started) * self._rate) + 1)
        for number in range(self._planned, due_by_now):
            self.send(self.started + number / self._rate)
        self._planned = due_by_now
        self._give_up(monotonic() - self._patience_s)
        if due_by_now < self._total:
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        elif self.load.patience_s is not None:
            self._end_storm()

    def answered(self, response: Response) -> None:
        if self.count(response):
            self._finish_when_done()

    def _end_storm(self) -> None:
        """Requests in flight would be answered after the storm, so they are not counted."""
        self._give_up(float("inf"))
        self.ended = monotonic()
        self.finish()

    def _give_up(self, since: float) -> None:
        self.given_up += self.client.drop_due_before(since)
        self._finish_when_done()

    def _finish_when_done(self) -> None:
        if len(self.waits) + self.given_up == self._total:
            self.finish()

    @property
    def last_due(self) -> float:
        return self.started + self._total / self._rate
