"""Counts the calls of Python and C functions in every thread of this process, through the interpreter's profiler.

Seconds depend on the machine and on what else runs on it, and few virtual machines let a process count instructions.
Calls are the same on every machine with the same version of Python and of the packages: the interpreter spends nearly
all of its time in them. Not counted is what C code does within one call, and the server's own threads.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_COUNTED = frozenset({"call", "c_call"})


class CallCounter:
    """Threads that start while it is installed are counted, too. Each has its own number, because adding to a shared
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
        """The first event of a thread."""
        count = [0]

        def add(_frame: FrameType, event: str, _argument: object) -> None:
            if event in _COUNTED:
                count[0] += 1

        self._counts.append(count)
        sys.setprofile(add)
