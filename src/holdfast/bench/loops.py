"""The two ways to drive a server, as protocols that do as little as can be between an answer and the next request.

A closed loop sends the next request of a connection when the last was answered. An open loop sends each request at its
scheduled time, and counts its latency from then: when the server is slow, requests pile up and their waiting counts,
where a closed loop would politely ask less and report that all is well.
"""

import asyncio
import re
import sys
from collections import Counter, deque
from collections.abc import Iterator
from itertools import chain, count
from time import perf_counter
from typing import cast

from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import Load

_TICK_S = 0.001
# Some 50 MB of requests with tokens. Making one takes the driver about as long as sending it.
_MADE_BEFOREHAND = 100_000
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NO_BODY = frozenset({b"204", b"304"})


class Caller(asyncio.Protocol):
    """One connection with at most one request under way, so that what arrives is the answer to it."""

    transport: asyncio.Transport

    def __init__(self, loop_: "ClosedLoop | OpenLoop") -> None:
        self.due = 0.0
        self._loop = loop_
        self._arrived = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, due: float) -> None:
        self.due = due
        self.transport.write(self._loop.next_request())

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived + data if self._arrived else data
        end = arrived.find(b"\r\n\r\n")
        if end < 0 or len(arrived) < end + 4 + body_length(arrived, end):
            self._arrived = arrived
            return
        self._arrived = b""
        self._loop.answered(self, arrived[9:12])

    def connection_lost(self, exc: Exception | None) -> None:
        self._loop.lost()


def body_length(arrived: bytes, end: int) -> int:
    found = _LENGTH.search(arrived, 0, end)
    if found is None and arrived[9:12] not in _NO_BODY:
        raise BenchFailed(f"the driver reads answers with Content-Length only: {arrived[:end]!r}")
    return 0 if found is None else int(found[1])


class _Loop:
    def __init__(self, load: Load) -> None:
        self.load = load
        self.statuses: Counter[bytes] = Counter()
        self.waits: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked = 0
        self.started = 0.0
        self.ended = 0.0
        self._requests = _requests(load)

    def next_request(self) -> bytes:
        self.asked += 1
        return next(self._requests)

    def count(self, caller: Caller, status: bytes) -> float:
        now = self.ended = perf_counter()
        self.statuses[status] += 1
        self.waits.append(now - caller.due)
        return now

    def lost(self) -> None:
        if not self.done.done():
            self.done.set_exception(BenchFailed("the server closed a connection that was in use"))

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _requests(load: Load) -> Iterator[bytes]:
    """Those of an open loop are made beforehand: it must not be late on its own account."""
    filling, pieces = load.filling(), [piece.encode() for piece in load.pieces()]
    made = min(int(load.seconds * (load.rate_per_second or 0)), _MADE_BEFOREHAND)
    beforehand = [filling(number).join(pieces) for number in range(1, made + 1)]
    return chain(beforehand, (filling(number).join(pieces) for number in count(made + 1)))


class ClosedLoop(_Loop):
    def begin(self, callers: list[Caller]) -> None:
        self.started = perf_counter()
        self._until = self.started + self.load.longest_s
        self._limit = self.load.requests or sys.maxsize
        self._under_way = min(len(callers), self._limit)
        for caller in callers[: self._under_way]:
            caller.ask(self.started)

    def answered(self, caller: Caller, status: bytes) -> None:
        now = self.count(caller, status)
        if now < self._until and self.asked < self._limit:
            caller.ask(now)
            return
        self._under_way -= 1
        if not self._under_way:
            self.finish()

    @property
    def last_due(self) -> float:
        return self._until


class OpenLoop(_Loop):
    def begin(self, callers: list[Caller]) -> None:
        assert self.load.rate_per_second is not None
        self._rate = self.load.rate_per_second
        self._total = max(1, int(self.load.seconds * self._rate))
        self._idle, self._line = deque(callers), deque[float]()
        self._patience_s = self.load.patience_s or float("inf")
        self.given_up = 0
        self._planned = 0
        self.started = perf_counter()
        self._tick()

    def _tick(self) -> None:
        due_by_now = min(self._total, int((perf_counter() - self.started) * self._rate) + 1)
        for number in range(self._planned, due_by_now):
            due = self.started + number / self._rate
            if self._idle:
                self._idle.popleft().ask(due)
            else:
                self._line.append(due)
        self._planned = due_by_now
        self._give_up(perf_counter() - self._patience_s)
        if due_by_now < self._total:
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        elif self.load.patience_s is not None:
            self._end_storm()

    def answered(self, caller: Caller, status: bytes) -> None:
        self.count(caller, status)
        if self._line:
            caller.ask(self._line.popleft())
        else:
            self._idle.append(caller)
        self._finish_when_done()

    def _end_storm(self) -> None:
        """Whatever is still under way would be answered in the calm after it, and is not counted."""
        self._give_up(float("inf"))
        self.ended = perf_counter()
        self.finish()

    def _give_up(self, since: float) -> None:
        while self._line and self._line[0] < since:
            self._line.popleft()
            self.given_up += 1
        self._finish_when_done()

    def _finish_when_done(self) -> None:
        if len(self.waits) + self.given_up == self._total:
            self.finish()

    @property
    def last_due(self) -> float:
        return self.started + self._total / self._rate
