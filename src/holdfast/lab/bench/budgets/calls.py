"""Counts calls of Python and C functions in every thread of this process, using the interpreter's profiler.

Times depend on the machine and on what else it runs, and few virtual machines let a process count instructions. Call
counts are the same on every machine with the same versions of Python and of the packages, and calls account for nearly
all of the interpreter's time. Work inside one C call and the server's own threads are not counted.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_COUNTED = frozenset({"call", "c_call"})


class CallCounter:
    """Also counts threads that start while it is installed. Each thread has its own counter, because adding to a shared
    one is not atomic."""

    def __init__(self) -> None:
        self._counts: list[list[int]] = []

    @contextmanager
    def installed(self) -> Iterator["CallCounter"]:
        threading.setprofile(self._begin)
        sys.setprofile(self._begin)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def total(self) -> int:
        return sum(count[0] for count in self._counts)

    def _begin(self, _frame: FrameType, _event: str, _argument: object) -> None:
        """Handles the first event of a thread."""
        count = [0]

        def add(_frame: FrameType, event: str, _argument: object) -> None:
            if event in _COUNTED:
                count[0] += 1

        self._counts.append(count)
        sys.setprofile(add)
