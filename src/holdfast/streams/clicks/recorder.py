"""Takes clicks from requests and hands them to the sinks. A request only pays for one list append.

The model. `note` appends to a list and returns. A thread takes the list every few seconds, turns the notes into clicks
and passes them to each sink. Polls are sampled: one in a hundred is kept, so multiply by that.

What happens when it fails. Visitors never notice. While a sink fails or hangs, the list grows up to a limit, and
further clicks are dropped and counted. Clicks that a sink refused are dropped for that sink. A process that is killed
loses the clicks of the last seconds.
"""

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Protocol

import structlog

from holdfast.runtime import metrics
from holdfast.streams.clicks.click import KINDS, POLL, Click, Naming, Noted

log = structlog.get_logger()

WRITE_EVERY_S = 5.0
# About 300 bytes each in memory.
WAITING_MAX = 200_000
POLLS_PER_SAMPLE = 100
WARN_EVERY_S = 60.0
STOP_S = 3.0


class Sink(Protocol):
    def write(self, clicks: Sequence[Click]) -> None:
        """Runs in the recorder's thread. May raise any exception."""

    def close(self) -> None: ...


class ClickRecorder:
    def __init__(self, sinks: Sequence[Sink], naming: Naming, clock: Callable[[], float] = time.time) -> None:
        self._sinks, self._naming, self._clock = sinks, naming, clock
        self._waiting: list[Noted] = []
        self._polls = self._overflowed = 0
        self._warned_at = float("-inf")
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="clicks", daemon=True)

    def note(self, operation_id: str, values: Sequence[str], buyer_id: str | None, status: int, body: bytes) -> None:
        """Called for every request, so it does as little as possible."""
        kind = KINDS.get(operation_id)
        if kind is None or not values:
            return
        if kind is POLL:
            self._polls += 1
            if self._polls % POLLS_PER_SAMPLE:
                return
        sale_id = self._naming.sale_of(values[0])
        if sale_id is None:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._overflowed += 1
            return
        kept = body if status >= 400 else b""
        self._waiting.append(Noted(int(self._clock() * 1000), kind, sale_id, buyer_id, status, kept))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write the remaining clicks. A sink that hangs is abandoned when the process ends."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_EVERY_S):
            self.flush()
        self.flush()
        for sink in self._sinks:
            self._try(sink.close)

    def flush(self) -> None:
        noted, self._waiting = self._waiting, []
        dropped, self._overflowed = self._overflowed, 0
        clicks: list[Click] = []
        if not self._try(lambda: clicks.extend([self._naming.click(one) for one in noted])):
            dropped += len(noted)
        for sink in self._sinks if clicks else ():
            if self._try(lambda sink=sink: sink.write(clicks)):  # type: ignore[misc]
                metrics.CLICKS.labels("written").inc(len(clicks))
            else:
                dropped += len(clicks)
        if dropped:
            metrics.CLICKS.labels("dropped").inc(dropped)

    def _try(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as exc:
            if time.monotonic() - self._warned_at > WARN_EVERY_S:
                self._warned_at = time.monotonic()
                log.warning("clicks_not_written", error=str(exc) or type(exc).__name__)
            return False
        return True
