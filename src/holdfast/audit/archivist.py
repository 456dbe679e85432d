"""Finished raw segments become Parquet files, and old ones are forgotten.

Several archivists may share a directory: each segment is locked by the one that works on it. What a process that was
killed left behind is found by the next pass of any of them, and so by the next start.
"""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import get_native_id

import structlog

from holdfast.audit.engine import to_parquet
from holdfast.audit.segments import DRAFT, PARQUET, RAW, publish, segment_files, started_ms, taken

log = structlog.get_logger()

PASS_INTERVAL_S = 5.0
DAY_MS = 86_400_000
# Where the system has priorities, requests come first.
_NICENESS = 10


class Archivist:
    def __init__(self, directory: Path, keep_days: int) -> None:
        self._directory = directory
        self._keep_days = keep_days
        self._stopped = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, "archivist", initializer=_yield_to_requests)
        try:
            while True:
                await loop.run_in_executor(thread, self.pass_once)
                await asyncio.sleep(PASS_INTERVAL_S)
        finally:
            self._stopped = True
            thread.shutdown(wait=False, cancel_futures=True)

    def pass_once(self) -> int:
        """Archive what is finished, forget what is old; gives how many segments were archived."""
        try:
            self._forget()
            return sum([self._archive_or_tell(path) for path in sorted(self._directory.glob(f"*{RAW}"))])
        except OSError as exc:
            log.warning("archivist_pass_failed", error=str(exc))
            return 0

    def _archive_or_tell(self, raw: Path) -> bool:
        """One segment that cannot be read must not keep the others."""
        with taken(raw) as is_ours:
            try:
                return is_ours and not self._stopped and _archive(raw)
            except Exception as exc:
                log.warning("segment_not_archived", segment=raw.name, error=str(exc))
                return False

    def _forget(self) -> None:
        """Everything that is old, what a crash left half done included. No segment is written to for that long."""
        oldest = time.time_ns() // 1_000_000 - self._keep_days * DAY_MS
        for path in segment_files(self._directory):
            if started_ms(path) < oldest:
                path.unlink(missing_ok=True)


def _archive(raw: Path) -> bool:
    parquet, draft = raw.with_suffix(PARQUET), raw.with_suffix(DRAFT)
    if not parquet.exists() and raw.stat().st_size:
        try:
            to_parquet(raw, draft)
            publish(draft, parquet)
        finally:
            draft.unlink(missing_ok=True)
    raw.unlink()
    return True


def _yield_to_requests() -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICENESS)
