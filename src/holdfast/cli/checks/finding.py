"""What a check has found, and how to mend it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Level(StrEnum):
    OK = "ok"
    # It works, but not as well or as safely as it could.
    WARN = "warn"
    # It does not work, or what was acknowledged could be lost.
    FAIL = "fail"


class Finding(Struct, frozen=True):
    name: str
    level: Level
    found: str
    mend: str | None = None

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.level is not Level.FAIL,
            "level": self.level,
            "found": self.found,
            "mend": self.mend,
        }


def ok(name: str, found: str) -> Finding:
    return Finding(name, Level.OK, found)


def warn(name: str, found: str, mend: str) -> Finding:
    return Finding(name, Level.WARN, found, mend)


def fail(name: str, found: str, mend: str) -> Finding:
    return Finding(name, Level.FAIL, found, mend)
