"""Writes refusals to disk. The refused request only pays for one list append.

The model. `note` appends a refusal to a list and returns. Every 25 ms a thread takes the list, encodes it and appends
it to the raw segment of this process. So `kill -9` loses at most the refusals of the last 100 ms; anything written is
in the operating system's cache by then. The file is not synced, so a power failure may lose the last seconds. Refusals
are only a record. Reservations, unlike them, are durable before they are acknowledged.

What happens when it fails. Buyers never notice. If the disk is full or not writable, the current refusals are dropped
and counted, and the next ones are tried again. If the disk hangs, the list grows up to a limit, and further refusals
are dropped and counted.

Requests that are shed are not stored one by one: `count_shed` adds to a number per reason and second, and each number
is written as one line, without an owner, when its second is over.
"""

import time
from pathlib import Path
from threading import Event, Thread

import msgspec
import structlog
from msgspec import Struct

from holdfast.audit.refusal import NOBODY, Refusal
from holdfast.audit.segments import RawSegment
from holdfast.domain.stock.command import Verdict
from holdfast.runtime import metrics

log = structlog.get_logger()

WRITE_EVERY_S = 0.025
# Enough for half a minute at the highest rate of one process. A refusal takes about 300 bytes in memory.
WAITING_MAX = 500_000
# A segment is converted to Parquet at this size, which can still be searched quickly, or at this age.
ROLL_BYTES = 32 * 1024**2
ROLL_AFTER_S = 3_600.0
WARN_EVERY_S = 60.0
# Refusals to share with other servers wait here for a second. Any beyond this are shared with their finished segment.
UNSHARED_MAX_BYTES = 8 * 1024**2
# The counts of a second are written once nothing can be added to them.
COUNTED_AFTER_S = 2


class Written(Struct, frozen=True):
    """Lines that were written to a segment."""

    segment: str
    first_at: int
    last_at: int
    lines: bytes


class Recorder:
    def __init__(self, directory: Path, *, is_shared: bool = False) -> None:
        """`is_shared`: other servers can search the refusals too (audit/sharing.py)."""
        self._directory, self._is_shared = directory, is_shared
        self._shed: dict[tuple[int, str], int] = {}
        self._unshared: list[Written] = []
        self._unshared_bytes = 0
        self._waiting: list[Refusal] = []
        self._encode = msgspec.json.Encoder().encode_lines
        self._segment: RawSegment | None = None
        self._opened = self._warned_at = 0.0
        self._overflowed = 0
        self._wake = Event()
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
        """Called for every refusal of the gate, so it does as little as possible."""
        stock = (verdict.available, verdict.next_return_at)
        self.note_reason(verdict.outcome, sku_id, owner_id, quantity, request_id, sale_id, tier, *stock)

    def note_reason(
        self,
        reason: str,
        sku_id: str,
        owner_id: str,
        quantity: int,
        request_id: str,
        sale_id: str | None = None,
        tier: int = 0,
        available: int | None = None,
        next_return_at: int | None = None,
        trace_id: str = "",
    ) -> None:
        waiting = self._waiting
        if not waiting:
            self._wake.set()
        elif len(waiting) >= WAITING_MAX:
            self._overflowed += 1
            return
        waiting.append(
            Refusal(
                time.time_ns() // 1_000_000,
                sku_id,
                owner_id,
                reason,
                quantity,
                available,
                next_return_at,
                sale_id,
                tier,
                request_id,
                trace_id,
            )
        )

    def count_shed(self, reason: str) -> None:
        """Count a request that was shed unread."""
        shed, key = self._shed, (int(time.time()), reason)
        if not shed:
            self._wake.set()
        shed[key] = shed.get(key, 0) + 1

    def take_unshared(self) -> list[Written]:
        """The lines written since the last call."""
        taken, self._unshared = self._unshared, []
        self._unshared_bytes = 0
        return taken

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write pending refusals and close the segment."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping:
            self._wake.wait(self._rest_s())
            self._wake.clear()
            # Refusals that arrive together are written together.
            is_stopping = self._stopping.wait(WRITE_EVERY_S)
            self._pass(is_last=is_stopping)
            if self._waiting:  # Noted meanwhile by a thread that saw a non-empty list and did not wake us.
                self._wake.set()
        self._close()

    def _rest_s(self) -> float | None:
        if self._shed:
            return COUNTED_AFTER_S / 2
        return ROLL_AFTER_S if self._segment is not None else None

    def _pass(self, *, is_last: bool = False) -> None:
        # One statement each, so that concurrent appends are neither lost nor duplicated.
        count = len(self._waiting)
        refusals = self._waiting[:count]
        del self._waiting[:count]
        refusals += self._counted(is_last=is_last)
        overflowed, self._overflowed = self._overflowed, 0
        if refusals:
            overflowed += self._write(refusals)
        if overflowed:
            metrics.REFUSALS_DROPPED.inc(overflowed)
        self._roll_if_due()

    def _counted(self, *, is_last: bool) -> list[Refusal]:
        """Seconds that are over, so that their numbers are final."""
        before = int(time.time()) - (0 if is_last else COUNTED_AFTER_S)
        over = [key for key in list(self._shed) if key[0] <= before]
        return [Refusal(second * 1000, "", NOBODY, reason, self._shed.pop((second, reason))) for second, reason in over]

    def _write(self, refusals: list[Refusal]) -> int:
        """Returns how many refusals could not be written."""
        try:
            lines = self._encode(refusals)
            segment = self._open()
            segment.append(lines)
        except Exception as exc:  # The thread must survive any error.
            self._warn(exc)
            return len(refusals)
        if self._is_shared and self._unshared_bytes + len(lines) <= UNSHARED_MAX_BYTES:
            self._unshared_bytes += len(lines)
            moments = [refusal.at_ms for refusal in refusals]
            self._unshared.append(Written(segment.path.stem, min(moments), max(moments), lines))
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

    def _warn(self, exc: Exception) -> None:
        if self._warned_at and time.monotonic() - self._warned_at < WARN_EVERY_S:
            return
        self._warned_at = time.monotonic()
        log.warning("refusals_not_recorded", directory=str(self._directory), error=str(exc))
