"""Refusals on their way to disk, at the price of one append for the request that was refused.

The model. `note` puts a refusal into a list and returns. A thread takes what is there every 25 ms, encodes it in one go
and appends it to the raw segment of this process. So `kill -9` loses the refusals of the last 100 ms at most, and what
was written stays, because it is the operating system's by then. It is not synced: a loss of power may take the last
seconds. Refusals are a record and not a promise; reservations, which are one, are on disk before anybody is told.

What happens when it fails. Nobody who buys ever notices. Where the disk is full, or cannot be written to, the refusals
at hand are dropped and counted, and the next ones are tried again. Where the disk hangs, the list stops growing at a
limit, and what comes after that is dropped and counted.
"""

import time
from pathlib import Path
from threading import Event, Thread

import msgspec
import structlog

from holdfast import metrics
from holdfast.audit.refusal import Refusal
from holdfast.audit.segments import RawSegment
from holdfast.domain.command import Verdict

log = structlog.get_logger()

WRITE_EVERY_S = 0.025
# Enough for half a minute of the most that one process can refuse; a refusal takes some 300 bytes until it is written.
WAITING_MAX = 500_000
# A segment is rolled into Parquet when it has this size, which a search through it still answers at once, or this age.
ROLL_BYTES = 32 * 1024**2
ROLL_AFTER_S = 3_600.0
COMPLAIN_EVERY_S = 60.0


class Recorder:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: list[Refusal] = []
        self._encode = msgspec.json.Encoder().encode_lines
        self._segment: RawSegment | None = None
        self._opened = self._complained = 0.0
        self._overflowed = 0
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def note(
        self,
        verdict: Verdict,
        sku_id: str,
        owner_id: str,
        quantity: int,
        request_id: str,
        sale_id: str | None = None,
        tier: int = 0,
    ) -> None:
        """Called for every refusal, so it does no more than it must."""
        if len(self._waiting) >= WAITING_MAX:
            self._overflowed += 1
            return
        self._waiting.append(
            Refusal(
                time.time_ns() // 1_000_000,
                sku_id,
                owner_id,
                verdict.outcome,
                quantity,
                verdict.available,
                verdict.next_return_at,
                sale_id,
                tier,
                request_id,
            )
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, and let go of the segment."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_EVERY_S):
            self._pass()
        self._pass()
        self._close()

    def _pass(self) -> None:
        # One statement each, so that neither can tear what another thread appends meanwhile.
        count = len(self._waiting)
        refusals = self._waiting[:count]
        del self._waiting[:count]
        overflowed, self._overflowed = self._overflowed, 0
        if refusals:
            overflowed += self._write(refusals)
        if overflowed:
            metrics.REFUSALS_DROPPED.inc(overflowed)
        self._roll_if_due()

    def _write(self, refusals: list[Refusal]) -> int:
        """How many could not be written."""
        try:
            lines = self._encode(refusals)
            self._open().append(lines)
        except Exception as exc:  # Whatever it is, the thread must live on.
            self._complain(exc)
            return len(refusals)
        metrics.REFUSALS_RECORDED.inc(len(refusals))
        return 0

    def _open(self) -> RawSegment:
        if self._segment is None:
            self._segment = RawSegment(self._directory)
            self._opened = time.monotonic()
        return self._segment

    def _roll_if_due(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if segment.size >= ROLL_BYTES or time.monotonic() - self._opened >= ROLL_AFTER_S:
            self._close()

    def _close(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _complain(self, exc: Exception) -> None:
        if self._complained and time.monotonic() - self._complained < COMPLAIN_EVERY_S:
            return
        self._complained = time.monotonic()
        log.warning("refusals_not_recorded", directory=str(self._directory), error=str(exc))
