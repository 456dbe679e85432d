"""The result of a check, and how to fix it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Level(StrEnum):
    OK = "ok"
    # It works, but not optimally.
    WARN = "warn"
    # It does not work, or acknowledged data could be lost.
    FAIL = "fail"


class Finding(Struct, frozen=True):
    name: str
    level: Level
    found: str
    fix: str | None = None

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.level is not Level.FAIL,
            "level": self.level,
            "found": self.found,
            "fix": self.fix,
        }


def ok(name: str, found: str) -> Finding:
    return Finding(name, Level.OK, found)


def warn(name: str, found: str, fix: str) -> Finding:
    return Finding(name, Level.WARN, found, fix)


def fail(name: str, found: str, fix: str) -> Finding:
    return Finding(name, Level.FAIL, found, fix)
