"""Describes the machine that figures were measured on."""

import os
import platform
import sqlite3
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

_SYNCS = 40
_PAGE = b"\0" * 4096


def machine(packages: list[str], **known: object) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "holdfast": _version("holdfast"),
        "sqlite": sqlite3.sqlite_version,
        **{name: _version(name) for name in packages},
        **known,
        "fsync_ms": fsync_ms(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def fsync_ms() -> float:
    """The time to sync one page to disk, in the directory where the engines keep their files."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(_SYNCS):
            started = perf_counter()
            file.write(_PAGE)
            file.flush()
            os.fsync(file.fileno())
            took.append(perf_counter() - started)
    return round(median(took) * 1000, 3)


def _cpu() -> str:
    """The CPU model, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
