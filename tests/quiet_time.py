"""Time as it passes for a process that is never kept waiting.

On a busy machine everything takes longer, which says nothing about what is tested. So tests that hold a promise in
seconds count only the time in which no process of the machine waited for a processor or a disk. Linux counts the rest
(pressure stall information); where it does not, no time is counted.
"""

from pathlib import Path
from time import monotonic

PRESSURES = (Path("/proc/pressure/cpu"), Path("/proc/pressure/io"))


def stalled_s(*pressures: Path) -> float:
    """For how long some process had to wait, so far; where that is not counted, always."""
    try:
        return sum(_total_s(pressure) for pressure in pressures)
    except OSError:
        return monotonic()


def _total_s(pressure: Path) -> float:
    some = pressure.read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


class QuietTime:
    def __init__(self) -> None:
        self._since, self._stalled = monotonic(), stalled_s(*PRESSURES)

    @property
    def seconds(self) -> float:
        return monotonic() - self._since - (stalled_s(*PRESSURES) - self._stalled)
