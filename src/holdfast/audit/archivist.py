"""Converts finished raw segments to Parquet, and deletes old ones.

Several archivists may share a directory: each one locks the segment it works on. The next pass of any archivist picks
up what a killed process left behind.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import get_native_id
from typing import Any

import structlog

from holdfast.audit.engine import to_parquet
from holdfast.audit.segments import DRAFT, PARQUET, RAW, publish, segment_files, started_ms, taken
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent

log = structlog.get_logger()

PASS_INTERVAL_S = 5.0
# Longer than any transaction may take.
SHARE_S = 60.0
DAY_MS = 86_400_000
# A lower priority than requests, where the operating system supports it.
_NICENESS = 10


class Archivist:
    def __init__(
        self, directory: Path, keep_days: int, share: Callable[[Path], Coroutine[Any, Any, bool]] | None = None
    ) -> None:
        """`share` is called with each finished segment before it is archived, and returns whether it may be
        archived."""
        self._directory = directory
        self._share, self._loop = share, None if share is None else asyncio.get_running_loop()
        self._keep_days = keep_days
        self._stopped = False

    def agent(self) -> Agent[int]:
        thread = ThreadPoolExecutor(1, "archivist", initializer=_yield_to_requests)

        async def work() -> int:
            return await asyncio.get_running_loop().run_in_executor(thread, self.pass_once)

        async def close() -> None:
            self._stopped = True
            thread.shutdown(wait=False, cancel_futures=True)

        return Agent("archivist", work, PASS_INTERVAL_S, close=close, longest_pass_s=THOROUGH_PASS_S)

    def pass_once(self) -> int:
        """Archive finished segments, delete old ones, and return how many were archived."""
        try:
            self._delete_old()
            return sum([self._archive_or_log(path) for path in sorted(self._directory.glob(f"*{RAW}"))])
        except OSError as exc:
            log.warning("archivist_pass_failed", error=str(exc))
            return 0

    def _archive_or_log(self, raw: Path) -> bool:
        """A segment that cannot be read must not block the others."""
        with taken(raw) as is_ours:
            try:
                return is_ours and not self._stopped and self._is_shared(raw) and _archive(raw)
            except Exception as exc:
                log.warning("segment_not_archived", segment=raw.name, error=str(exc))
                return False

    def _is_shared(self, raw: Path) -> bool:
        if self._share is None or raw.with_suffix(PARQUET).exists():
            return True
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._share(raw), self._loop).result(SHARE_S)

    def _delete_old(self) -> None:
        """Also deletes leftovers of a crash. No segment is written to for that long."""
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
