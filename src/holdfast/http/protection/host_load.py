"""How much of the CPU and the memory that this process may use is in use.

Inside a control group with a limit (a container, a systemd unit) that is the group's use of its limit; otherwise it is
the machine's. Both versions of control groups are read, and a limit of any group around this one counts: the one that
is nearest to being reached.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from msgspec import Struct

# Version 1 gives a number near 2^63 where there is no limit.
_UNLIMITED = 1 << 60
_KIB = 1024


class Usage(Struct, frozen=True):
    """Used shares, 0 to 1."""

    cpu: float
    memory: float

    @property
    def highest(self) -> float:
        return max(self.cpu, self.memory)


class HostLoad:
    def __init__(self, root: Path = Path("/")) -> None:
        """`root` is where `proc` and `sys` are."""
        self._root = root
        self._last: dict[str, tuple[float, float]] = {}

    def sample(self, now: float | None = None) -> Usage:
        """Since the last sample; the first one knows of no CPU time."""
        at = monotonic() if now is None else now
        cpu = [self._share(name, used, limit, at) for name, used, limit in self._cpu_times()]
        memory = [used / limit for used, limit in self._memory() if limit > 0]
        return Usage(max(cpu, default=0.0), max(memory, default=0.0))

    def _share(self, name: str, used_s: float, cpus: float, at: float) -> float:
        before = self._last.get(name)
        self._last[name] = used_s, at
        if before is None or at <= before[1]:
            return 0.0
        return min(max((used_s - before[0]) / ((at - before[1]) * cpus), 0.0), 1.0)

    def _cpu_times(self) -> Iterator[tuple[str, float, float]]:
        """A name, CPU seconds used so far, and how many CPUs may be used."""
        for group in self._groups("cpu"):
            with suppress(OSError, ValueError, IndexError):
                if (group / "cpu.max").exists():
                    quota, period = (group / "cpu.max").read_text().split()
                    used = int(_fields(group / "cpu.stat")["usage_usec"]) / 1e6
                else:
                    quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
                    beside = Path(*("cpuacct" if part == "cpu" else part for part in group.parts))
                    used = int((beside / "cpuacct.usage").read_text()) / 1e9
                if quota != "max" and int(quota) > 0:
                    yield str(group), used, int(quota) / int(period)
        with suppress(OSError, ValueError, IndexError):
            ticks = [int(text) for text in (self._root / "proc/stat").read_text().splitlines()[0].split()[1:9]]
            idle, hertz = ticks[3] + ticks[4], os.sysconf("SC_CLK_TCK")
            yield "machine", (sum(ticks) - idle) / hertz, float(os.cpu_count() or 1)

    def _memory(self) -> Iterator[tuple[int, int]]:
        """Bytes that are used and cannot be given back at once, and how many may be."""
        for group in self._groups("memory"):
            with suppress(OSError, ValueError, KeyError):
                is_new = (group / "memory.max").exists()
                names = ("max", "current") if is_new else ("limit_in_bytes", "usage_in_bytes")
                limit, used = ((group / f"memory.{name}").read_text().strip() for name in names)
                cached = int(_fields(group / "memory.stat")["inactive_file" if is_new else "total_inactive_file"])
                if limit != "max" and int(limit) < _UNLIMITED:
                    yield max(int(used) - cached, 0), int(limit)
        with suppress(OSError, ValueError, KeyError):
            info = _fields(self._root / "proc/meminfo")
            total = int(info["MemTotal:"]) * _KIB
            yield total - int(info["MemAvailable:"]) * _KIB, total

    def _groups(self, controller: str) -> Iterator[Path]:
        """The directory of this process's group, and those around it."""
        mounted = self._root / "sys/fs/cgroup"
        top = mounted / controller if (mounted / controller).is_dir() else mounted
        group = top / self._own_path(controller).lstrip("/")
        # A container may see its own group at the top, under another name outside.
        while group != top and top in group.parents:
            yield group
            group = group.parent
        yield top

    def _own_path(self, controller: str) -> str:
        with suppress(OSError):
            found = [line.split(":", 2) for line in (self._root / "proc/self/cgroup").read_text().splitlines()]
            for _, controllers, path in sorted(found, key=lambda part: part[1] == ""):
                if controller in controllers.split(",") or controllers == "":
                    return path
        return "/"


def _fields(path: Path) -> dict[str, str]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {parts[0]: parts[1] for parts in lines if len(parts) > 1}
